#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>

#include "base/check.h"
#include "base/language.h"
#include "base/utf8.h"
#include "heed/inspect_run.h"
#include "heed/language.h"
#include "heed/open.h"
#include "heed/serve.h"
#include "io/json_writer.h"
#include "models/forward.h"

namespace heed::app {
namespace {

constexpr size_t kShown = 20;  // pairs of parts in the terminal

std::array<int64_t, 4> parse_place(const std::string& text) {
  std::array<int64_t, 4> numbers{};
  const char* at = text.data();
  const char* end = at + text.size();
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto parsed = std::from_chars(at, end, numbers[i]);
    const bool last = i + 1 == numbers.size();
    const bool ok = parsed.ec == std::errc() && numbers[i] >= 0 &&
                    (last ? parsed.ptr == end : parsed.ptr != end && *parsed.ptr == ',');
    if (!ok) {
      fail(ErrorKind::usage, "--why", "{} is not LAYER,HEAD,QUERY,KEY", quote(text));
    }
    at = last ? end : parsed.ptr + 1;
  }
  return numbers;
}

struct Pair {
  size_t query, key;
  double value;
};

std::vector<Pair> strongest_first(const ScoreExplanation& why) {
  std::vector<Pair> pairs;
  for (size_t i = 0; i < why.values.size(); ++i) {
    pairs.push_back({i / why.key_parts.size(), i % why.key_parts.size(), why.values[i]});
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) {
    return std::abs(a.value) > std::abs(b.value);
  });
  return pairs;
}

/// Whether products of the model round what they read, as those with quantised weights do.
bool rounds_inputs(const ScoreExplanation& why) {
  return std::any_of(why.query_parts.begin(), why.query_parts.end(),
                     [](const ScorePart& part) { return part.type == "rounding"; });
}

std::string as_json(const ScoreExplanation& why, const std::vector<Pair>& pairs) {
  JsonWriter json;
  json.begin_object().field("score", why.score).field("weight", why.weight);
  json.field("bias", why.bias).field("linearised", why.linearised);
  json.field("rounded_inputs", rounds_inputs(why)).key("parts").begin_array();
  for (const Pair& pair : pairs) {
    json.begin_object().field("query_part", why.query_parts[pair.query].name);
    json.field("key_part", why.key_parts[pair.key].name).field("value", pair.value).end_object();
  }
  return json.end_array().field("remainder", why.remainder).end_object().take();
}

}  // namespace

int inspect_why(const Model& model, const Tokenizer& tokenizer, const InspectOptions& options,
                const Common& common) {
  const auto [layer, head, query, key] = parse_place(options.why);
  if (!options.text) {
    fail(ErrorKind::usage, "inspect", "--why needs --text");
  }
  ExplorerModel subject;
  subject.id = options.model;
  subject.path = options.model;
  subject.model = std::shared_ptr<const Model>(std::shared_ptr<void>(), &model);
  subject.tokenizer = tokenizer;
  // A classifier on BART has a decoder, too, which reads the source.
  ModelInput sample;
  sample.input_ids = Tensor::zeros({1, 1}, DType::i64);
  const bool two =
      model.kind() == ModelKind::encoder_decoder || decoder_input_ids(model, sample).defined();
  const std::string kind = !options.kind.empty() ? options.kind : two ? "cross" : "self";
  const ScoreExplanation why = explain_score(subject, *options.text, kind, layer, head, query, key);
  const std::vector<Pair> pairs = strongest_first(why);
  if (common.json) {
    print(as_json(why, pairs) + "\n");
    return 0;
  }
  std::string text = tell("{} layer {} head {}: query {} → key {}\nscore {:.6f} (weight {:.4f})\n",
                          translate(kind), layer, head, query, key, why.score, why.weight);
  double rest = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (i < kShown) {
      text += fmt::format("{:>12.6f}  {} · {}\n", pairs[i].value,
                          why.query_parts[pairs[i].query].name, why.key_parts[pairs[i].key].name);
    } else {
      rest += pairs[i].value;
    }
  }
  if (pairs.size() > kShown) {
    text += tell("{:>12.6f}  {} further pairs\n", rest, pairs.size() - kShown);
  }
  if (why.bias != 0) {
    text += fmt::format("{:>12.6f}  {}\n", why.bias, tell("position bias"));
  }
  text += fmt::format("{:>12.2e}  {}\n", why.remainder, tell("remainder (rounding)"));
  if (why.linearised) {
    text += tell("Norms come after the parts here: the split holds their scales as they were.\n");
  }
  if (rounds_inputs(why)) {
    text += tell(
        "The weights are quantised, and products with them round what they read to 8 bits: what "
        "that changed is in the parts called rounding.\n");
  }
  print(text);
  return 0;
}

}  // namespace heed::app
