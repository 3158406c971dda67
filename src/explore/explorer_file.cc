#include <cstring>
#include <set>

#include "base/base64.h"
#include "base/check.h"
#include "base/language.h"
#include "explore/explorer_page.h"
#include "explore/explorer_state.h"
#include "heed/serve.h"

namespace heed {
namespace {

constexpr int64_t kTile = 256;
constexpr int64_t kMostQueries = 64;
constexpr int64_t kWholeWhy = 24;  // tokens up to which every visible cell is split

/// Collects answers by the page's own keys, each once, until the budget is spent.
class Collector {
 public:
  Collector(Explorer& explorer, std::string trace, int64_t budget)
      : explorer_(explorer), trace_(std::move(trace)), budget_(budget) {
    responses_.begin_object();
  }

  void add(const std::string& key, const std::string& json) {
    budget_ -= static_cast<int64_t>(key.size() + json.size());
    responses_.key(key).raw(json);
  }
  /// Asks a route of the trace; `body` is as the page writes it: sorted keys, no spaces. What the
  /// model cannot answer, and what no longer fits, is left out.
  void ask(const std::string& route, const std::string& body) {
    const std::string key = fmt::format("POST /heed/v1/traces/t/{} {}", route, body);
    if (budget_ <= 0 || !asked_.insert(key).second) {
      return;
    }
    const Explorer::Answer answer =
        explorer_.answer("POST", fmt::format("/heed/v1/traces/{}/{}", trace_, route), body);
    if (answer.status == 200) {
      add(key, answer.json);
    }
  }
  /// The strongest keys of each query, best first, as `rows` with this body answers.
  std::vector<std::vector<int64_t>> strongest_keys(const std::string& body) {
    if (budget_ <= 0) {
      return {{}};
    }
    const Json rows = Json::parse(
        explorer_.answer("POST", fmt::format("/heed/v1/traces/{}/rows", trace_), body).json,
        "rows");
    const Json index = rows.at("index");
    const auto shape = index.at("shape").integers(0, INT32_MAX);
    const std::string bytes = decode_base64(index.string("data"), "rows");
    std::vector<std::vector<int64_t>> keys(static_cast<size_t>(shape.at(0)));
    for (size_t i = 0; i < bytes.size() / sizeof(int32_t); ++i) {
      int32_t key = 0;
      std::memcpy(&key, bytes.data() + i * sizeof key, sizeof key);
      if (key >= 0) {
        keys[i / static_cast<size_t>(shape.at(1))].push_back(key);
      }
    }
    return keys;
  }
  std::string take() { return responses_.end_object().take(); }

 private:
  Explorer& explorer_;
  std::string trace_;
  int64_t budget_;
  std::set<std::string> asked_;
  JsonWriter responses_;
};

struct Shown {
  std::string kind;
  int64_t layers, heads, queries, keys, offset;
  bool causal;
};

int64_t level_of(int64_t size) {
  int64_t level = 0;
  while ((kTile << level) < size) {
    ++level;
  }
  return level;
}

void add_tiles(Collector& all, const Shown& a) {
  const int64_t level = level_of(std::max(a.queries, a.keys));
  for (int64_t layer = 0; layer < a.layers; ++layer) {
    for (int64_t head = -1; head < a.heads; ++head) {
      all.ask("tile",
              fmt::format(R"({{"column":0,"head":{},"kind":"{}","layer":{},"level":{},"row":0,)"
                          R"("what":"weights"}})",
                          head, a.kind, layer, level));
    }
  }
  if (std::max(a.queries, a.keys) <= kTile) {
    all.ask("tile", fmt::format(R"({{"column":0,"head":-1,"kind":"{}","layer":0,"level":0,"row":0,)"
                                R"("what":"contribution"}})",
                                a.kind));
  }
}

void add_head(Collector& all, const Shown& a, int64_t layer, int64_t head) {
  for (int64_t q = 0; q < a.queries; q += kTile) {
    for (int64_t k = 0; k < a.keys; k += kTile) {
      all.ask("head", fmt::format(R"({{"head":{},"keys":[{},{}],"kind":"{}","layer":{},)"
                                  R"("queries":[{},{}]}})",
                                  head, k, std::min(k + kTile, a.keys), a.kind, layer, q,
                                  std::min(q + kTile, a.queries)));
    }
  }
}

/// What the page opens on.
struct Start {
  int64_t layer, head, query;
};

/// The queries whose steps and scores the file holds: the one that is shown first, and those at the
/// beginning of the text.
std::vector<int64_t> stored_queries(const Shown& a, int64_t first) {
  std::vector<int64_t> queries{first};
  for (int64_t query = 0; query < std::min(a.queries, kMostQueries); ++query) {
    if (query != first) {
      queries.push_back(query);
    }
  }
  return queries;
}

void ask_why(Collector& all, const Shown& a, int64_t layer, int64_t head, int64_t query,
             int64_t key) {
  all.ask("why", fmt::format(R"({{"head":{},"key":{},"kind":"{}","layer":{},"query":{}}})", head,
                             key, a.kind, layer, query));
}

/// Splits the scores of a query's strongest keys.
void add_strongest_why(Collector& all, const Shown& a, int64_t layer, int64_t head, int64_t query,
                       int64_t count) {
  const auto strongest = all.strongest_keys(
      fmt::format(R"({{"head":{},"kind":"{}","layer":{},"queries":[{},{}],"top_k":{}}})", head,
                  a.kind, layer, query, query + 1, std::min(count, a.keys)));
  for (const int64_t key : strongest.front()) {
    ask_why(all, a, layer, head, query, key);
  }
}

/// Splits the scores of the head that is shown first: all of a short text, else each query's
/// strongest keys.
void add_why(Collector& all, const Shown& a, const Start& start) {
  constexpr int64_t kStrongest = 8;
  const bool whole = std::max(a.queries, a.keys) <= kWholeWhy;
  for (const int64_t query : stored_queries(a, start.query)) {
    if (!whole) {
      add_strongest_why(all, a, start.layer, start.head, query, kStrongest);
      continue;
    }
    for (int64_t key = 0; key < a.keys && (!a.causal || key <= query + a.offset); ++key) {
      ask_why(all, a, start.layer, start.head, query, key);
    }
  }
}

void add_steps(Collector& all, const Shown& a, int64_t layer, int64_t head, int64_t query) {
  all.ask("steps", fmt::format(R"({{"head":{},"kind":"{}","layer":{},"query":{}}})", head, a.kind,
                               layer, query));
}

void add_predictions(Collector& all, const Json& trace) {
  const int64_t position = trace.at("prediction").integer("position", -1, INT32_MAX);
  all.ask("predict", fmt::format(R"({{"all_logits":true,"position":{}}})", position));
  all.ask("lens", fmt::format(R"({{"position":{}}})", position));
  const Json candidates = trace.at("prediction").at("candidates");
  for (size_t i = 0; i < std::min<size_t>(candidates.size(), 5); ++i) {
    all.ask("attribution", fmt::format(R"({{"position":{},"token":{}}})", position,
                                       candidates[i].integer("id", 0, INT64_MAX)));
  }
}

void add_head_views(Collector& all, const Shown& a, int64_t layer, int64_t head) {
  all.ask("rows", fmt::format(R"({{"head":{},"kind":"{}","layer":{},"queries":[0,{}],"top_k":{}}})",
                              head, a.kind, layer, std::min<int64_t>(200, a.queries),
                              std::min<int64_t>(16, a.keys)));
  add_head(all, a, layer, head);
}

/// The other things that the map of the first head can show.
void add_start_tiles(Collector& all, const Shown& a, const Start& start) {
  const int64_t level = level_of(std::max(a.queries, a.keys));
  for (const char* what : {"value_weighted", "scores"}) {
    all.ask("tile", fmt::format(R"({{"column":0,"head":{},"kind":"{}","layer":{},"level":{},)"
                                R"("row":0,"what":"{}"}})",
                                start.head, a.kind, start.layer, level, what));
  }
}

std::string trace_request(const ExplorerModel& model, const ExplorerFileOptions& options) {
  JsonWriter request;
  request.begin_object().field("model", model.id);
  for (const auto& [name, value] :
       {std::pair{"text", &options.text}, {"pair", &options.pair}, {"target", &options.target}}) {
    if (*value) {
      request.field(name, **value);
    }
  }
  if (!options.ask.empty()) {
    request.field("ask", options.ask);
  }
  if (!options.image.empty()) {
    request.field("image", encode_base64(options.image));
  }
  if (!options.audio.empty()) {
    request.field("audio", encode_base64(options.audio));
  }
  if (!options.interventions.empty()) {
    request.key("interventions").raw(options.interventions);
  }
  return request.end_object().take();
}

/// The attention that the page opens on, as it would choose itself where nothing is asked for.
const Shown& first_shown(const std::vector<Shown>& all, const ExplorerFileOptions& options) {
  const auto find = [&](std::string_view kind) {
    return std::find_if(all.begin(), all.end(), [&](const Shown& a) { return a.kind == kind; });
  };
  auto found = all.end();
  if (!options.kind.empty()) {
    found = find(options.kind);
  } else {
    for (const char* kind : {"readout", "cross"}) {
      found = found == all.end() ? find(kind) : found;
    }
    found = found == all.end() ? all.begin() : found;
  }
  if (found == all.end() || options.layer >= found->layers || options.head >= found->heads) {
    std::vector<std::string> there;
    there.reserve(all.size());
    for (const Shown& a : all) {
      there.push_back(tell("{}: layers 0 to {}, heads 0 to {}", a.kind, a.layers - 1, a.heads - 1));
    }
    fail(ErrorKind::usage, "inspect", "the model has no such attention; it has {}",
         fmt::join(there, "; "));
  }
  return *found;
}

void add_everything(Collector& all, const Json& trace, const std::vector<Shown>& shown,
                    const Shown& first, const Start& start) {
  for (const Shown& each : shown) {
    for (int64_t layer = 0; layer < each.layers; ++layer) {
      all.ask("heads", fmt::format(R"({{"kind":"{}","layer":{}}})", each.kind, layer));
    }
  }
  for (const Shown& each : shown) {
    add_tiles(all, each);
  }
  add_head(all, first, start.layer, start.head);
  for (const int64_t q : stored_queries(first, start.query)) {
    add_steps(all, first, start.layer, start.head, q);
  }
  add_why(all, first, start);
  add_predictions(all, trace);
  add_start_tiles(all, first, start);
  for (const Shown& each : shown) {
    for (int64_t layer = 0; layer < each.layers; ++layer) {
      for (int64_t head = 0; head < each.heads; ++head) {
        add_head_views(all, each, layer, head);
      }
    }
  }
  // What Steps and Why show where only another head or attention is chosen.
  for (const Shown& each : shown) {
    const int64_t query = std::min(start.query, each.queries - 1);
    for (int64_t layer = 0; layer < each.layers; ++layer) {
      for (int64_t head = 0; head < each.heads; ++head) {
        add_steps(all, each, layer, head, query);
        add_strongest_why(all, each, layer, head, query, 1);
      }
    }
  }
  const Json positions = trace.at("predictions_at");
  for (size_t i = 0; i < std::min<size_t>(positions.size(), kMostQueries); ++i) {
    all.ask("predict", fmt::format(R"({{"position":{}}})", positions[i].integer(0, INT32_MAX)));
  }
}

}  // namespace

std::string explorer_file(const ExplorerModel& model, const ExplorerFileOptions& options) {
  Explorer explorer({model.id}, [&](const std::string&) { return model; });
  const Explorer::Answer made =
      explorer.answer("POST", "/heed/v1/traces", trace_request(model, options));
  const Json trace = Json::parse(made.json, "trace");
  if (made.status != 200) {
    fail(ErrorKind::usage, "inspect", "{}", trace.at("error").string("message"));
  }
  std::vector<Shown> shown;
  for (const Json& each : trace.at("attentions").elements()) {
    shown.push_back({each.string("kind"), each.integer("layers", 0, INT32_MAX),
                     each.integer("heads", 0, INT32_MAX), each.integer("queries", 0, INT32_MAX),
                     each.integer("keys", 0, INT32_MAX),
                     each.integer("offset", INT32_MIN, INT32_MAX), each.boolean("causal")});
  }
  check_data(!shown.empty(), "inspect", "the model has no attention to show");
  const Shown& first = first_shown(shown, options);
  const int64_t asked = trace.at("prediction").integer("position", -1, INT32_MAX);
  const Start start{std::max<int64_t>(options.layer, 0), std::max<int64_t>(options.head, 0),
                    asked >= 0 && asked < first.queries ? asked : first.queries - 1};
  Collector all(explorer, trace.string("id"), options.budget);
  all.add("GET /heed/v1/models", explorer.answer("GET", "/heed/v1/models", "").json);
  add_everything(all, trace, shown, first, start);
  // In the file the trace is called "t".
  std::string trace_json = made.json;
  const std::string own = fmt::format(R"("id":"{}")", trace.string("id"));
  trace_json.replace(trace_json.find(own), own.size(), R"("id":"t")");
  JsonWriter json;
  json.begin_object().field("version", 1).field("language", options.language);
  json.key("start").begin_object().key("trace").raw(trace_json).field("kind", first.kind);
  json.field("layer", start.layer).field("head", start.head);
  json.field("query", start.query).end_object();
  json.key("responses").raw(all.take());
  return explorer_page_with_data(json.end_object().take());
}

}  // namespace heed
