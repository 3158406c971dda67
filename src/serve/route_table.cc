#include "serve/handlers.h"
#include "serve/routes.h"

namespace heed::serve {
namespace {

constexpr double kText = 1 << 20;       // bytes of one text
constexpr double kMostTokens = 1 << 20; // tokens to generate
constexpr double kMostSeed = 9007199254740991.0;  // 2^53 - 1: exact in every client's JSON

Field model_field() {
  return string_field("model", 256, "Name of a model of /v1/models; may be left out where one fits");
}

void add(std::vector<Field>& fields, std::vector<Field> more) {
  fields.insert(fields.end(), more.begin(), more.end());
}

/// What all routes that generate text take.
std::vector<Field> sampling_fields() {
  return {
      number_field("temperature", 0, 2, "1", "Randomness; 0 always takes the likeliest token"),
      number_field("top_p", 0, 1, "1", "Only the likeliest tokens with this probability together"),
      integer_field("top_k", 0, 1 << 20, "0", "Only the k likeliest tokens; 0: all"),
      number_field("min_p", 0, 0.999999, "0",
                   "Only tokens with at least this fraction of the likeliest one's probability"),
      number_field("repetition_penalty", 0.01, 100, "1", "Above 1: fewer repetitions"),
      strings_field("stop", 16, "Texts that end the answer; they are not part of it"),
      integer_field("seed", -1, kMostSeed, "-1",
                    "The same seed gives the same answer; -1: a new one each time"),
      boolean_field("stream", "false", "Send the answer piece by piece, as server-sent events"),
  };
}

Field stream_options_field() {
  return object_field("stream_options",
                      {boolean_field("include_usage", "false", "A last chunk with the usage")},
                      "Options of a stream");
}

std::vector<Field> completion_fields() {
  std::vector<Field> fields{
      model_field(),
      any_field("prompt", "Text, texts, token ids or lists of token ids to go on from").must(),
      integer_field("max_tokens", 0, kMostTokens, "16", "Most tokens to generate"),
      integer_field("n", 1, 128, "1", "Answers for each prompt"),
      integer_field("best_of", 0, 128, "0", "Not more than n"),
      boolean_field("echo", "false", "Begin the answer with the prompt"),
      string_field("suffix", kText, "Not supported; must be empty"),
      integer_field("logprobs", 0, 20, "", "Show log-probabilities, of so many alternatives, too"),
      stream_options_field(),
      string_field("user", 256, "An end user, for fairness between them"),
  };
  add(fields, sampling_fields());
  return fields;
}

bool generates(const Abilities& can) { return can.generate; }

std::vector<Route> make_routes() {
  using Access = Route::Access;
  using Where = Route::Where;
  const std::string language_model = "a language model";
  return {
      {"GET", "/health", "Whether the server is ready: 200, or 503 while models are loaded",
       "operation", Access::open, Where::io, {}, nullptr, {}, false, answer_health},
      {"GET", "/metrics", "Counters and histograms in Prometheus' format", "operation", Access::key,
       Where::io, {}, nullptr, {}, false, answer_metrics},
      {"GET", "/openapi.json", "This description", "operation", Access::key, Where::io, {}, nullptr,
       {}, false, answer_openapi},
      {"GET", "/v1/models", "The models that can be asked for", "models", Access::key, Where::io,
       {}, nullptr, {}, false, answer_models},
      {"GET", "/v1/models/*", "One model", "models", Access::key, Where::io, {}, nullptr, {}, false,
       answer_model},
      {"POST", "/v1/completions", "Continue a text", "text", Access::key, Where::worker,
       completion_fields(), generates, language_model, true, answer_completions},
  };
}

}  // namespace

const std::vector<Route>& routes() {
  static const std::vector<Route> kRoutes = make_routes();
  return kRoutes;
}

}  // namespace heed::serve
