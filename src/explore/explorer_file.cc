#include <set>

#include "base/check.h"
#include "explore/explorer_page.h"
#include "explore/explorer_state.h"
#include "heed/explorer.h"

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
  int64_t layers, heads, queries, keys;
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
  if (a.kind != "cross" && a.queries == a.keys && a.queries <= kTile) {
    all.ask("tile", fmt::format(R"({{"column":0,"head":-1,"kind":"{}","layer":0,"level":0,"row":0,)"
                                R"("what":"rollout"}})",
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

void add_why(Collector& all, const Shown& a) {
  if (std::max(a.queries, a.keys) > kWholeWhy) {
    return;
  }
  for (int64_t query = 0; query < a.queries; ++query) {
    for (int64_t key = 0; key < a.keys && (!a.causal || key <= query); ++key) {
      all.ask("why", fmt::format(R"({{"head":0,"key":{},"kind":"{}","layer":0,"query":{}}})", key,
                                 a.kind, query));
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

}  // namespace

std::string explorer_file(const ExplorerModel& model, const std::string& text,
                          const std::string& language, int64_t budget) {
  Explorer explorer({model.id}, [&](const std::string&) { return model; });
  JsonWriter request;
  request.begin_object().field("model", model.id).field("text", text).end_object();
  const Explorer::Answer made = explorer.answer("POST", "/heed/v1/traces", request.text());
  const Json trace = Json::parse(made.json, "trace");
  if (made.status != 200) {
    fail(ErrorKind::usage, "inspect", "{}", trace.at("error").string("message"));
  }
  Collector all(explorer, trace.string("id"), budget);
  all.add("GET /heed/v1/models", explorer.answer("GET", "/heed/v1/models", "").json);
  std::vector<Shown> shown;
  for (const Json& each : trace.at("attentions").elements()) {
    shown.push_back({each.string("kind"), each.integer("layers", 0, INT32_MAX),
                     each.integer("heads", 0, INT32_MAX), each.integer("queries", 0, INT32_MAX),
                     each.integer("keys", 0, INT32_MAX), each.boolean("causal")});
    for (int64_t layer = 0; layer < shown.back().layers; ++layer) {
      all.ask("heads", fmt::format(R"({{"kind":"{}","layer":{}}})", shown.back().kind, layer));
    }
  }
  for (const Shown& each : shown) {
    add_tiles(all, each);
  }
  const Shown& start = shown.front();
  const int64_t query = start.queries - 1;
  add_head(all, start, 0, 0);
  for (int64_t q = 0; q < std::min(start.queries, kMostQueries); ++q) {
    add_steps(all, start, 0, 0, q);
  }
  add_why(all, start);
  add_predictions(all, trace);
  for (const Shown& each : shown) {
    for (int64_t layer = 0; layer < each.layers; ++layer) {
      for (int64_t head = 0; head < each.heads; ++head) {
        all.ask("rows", fmt::format(R"({{"head":{},"kind":"{}","layer":{},"queries":[0,{}],)"
                                    R"("top_k":{}}})",
                                    head, each.kind, layer, std::min<int64_t>(200, each.queries),
                                    std::min<int64_t>(16, each.keys)));
        add_head(all, each, layer, head);
      }
    }
  }
  for (int64_t layer = 0; layer < start.layers; ++layer) {
    for (int64_t head = 0; head < start.heads; ++head) {
      add_steps(all, start, layer, head, query);
    }
  }
  // In the file the trace is called "t".
  std::string trace_json = made.json;
  const std::string own = fmt::format(R"("id":"{}")", trace.string("id"));
  trace_json.replace(trace_json.find(own), own.size(), R"("id":"t")");
  JsonWriter json;
  json.begin_object().field("version", 1).field("language", language).key("start").begin_object();
  json.key("trace").raw(trace_json).field("kind", start.kind).field("layer", 0).field("head", 0);
  json.field("query", query).field("key", 0).end_object();
  json.key("responses").raw(all.take());
  return explorer_page_with_data(json.end_object().take());
}

}  // namespace heed
