#pragma once

#include <memory>
#include <string>
#include <vector>

#include "heed/generate.h"
#include "serve/routes.h"

namespace heed::serve {

/// One generated token, as `logprobs` shows it.
struct TokenRecord {
  int64_t id = 0;
  double log_probability = 0.0;
  std::vector<std::pair<int64_t, double>> top = {};  ///< the likeliest tokens, where asked for
};

/// One text that is generated for a request: sample `sample` of prompt `prompt`.
struct TextChoice {
  TextChoice(const LoadedModel& model, std::vector<std::string> stops)
      : stream(model.tokenizer, std::move(stops)) {}

  int64_t index = 0;  ///< among all choices of the answer
  size_t prompt = 0;
  TextStream stream;
  std::string text;
  std::vector<TokenRecord> tokens;
  std::string finish_reason;  ///< "stop" or "length"; empty while it runs
};

/// What is generated, independent of how the answer looks.
struct GenerationPlan {
  std::vector<std::vector<int64_t>> prompts;
  std::vector<ModelInput> encoder_inputs;  ///< of an encoder-decoder, one per prompt
  int64_t samples = 1;                     ///< of each prompt
  int64_t max_tokens = 16;
  std::vector<std::string> stops;
  Sampling sampling;
  double frequency_penalty = 0.0, presence_penalty = 0.0;
  std::vector<std::pair<int64_t, float>> logit_bias;
  bool ignore_end = false;  ///< end tokens do not end the text
  bool stream = false;
  bool include_usage = false;      ///< a last chunk with the usage, while streaming
  int64_t log_probabilities = -1;  ///< how many alternatives are shown; -1: none wanted
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
};

/// How an answer looks: one class per API. All functions run on the engine's thread.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  /// The whole answer, where it is not streamed.
  virtual std::string whole(const std::vector<TextChoice>& choices, const Usage& usage) = 0;
  /// Events before the first piece.
  virtual std::string begin(const std::vector<TextChoice>&) { return {}; }
  /// Events for new text of a choice; `token` is the index of its newest token.
  virtual std::string piece(const TextChoice& choice, const std::string& text, size_t token) = 0;
  /// Events for a choice that has ended, with the last of its text.
  virtual std::string finish(const TextChoice& choice, const std::string& text) = 0;
  /// Events that end the stream.
  virtual std::string end(const std::vector<TextChoice>& choices, const Usage& usage) = 0;
};

/// Generates what the plan says and answers the call in the format. Throws BadRequest where the
/// plan does not fit the model.
void run_generation(const CallPtr& call, GenerationPlan plan, std::shared_ptr<AnswerFormat> format);

/// Sampling, stops, seed and the like from the fields that all text routes share. `length_field` is
/// the name of the field that limits the tokens.
GenerationPlan common_plan(const Call& call, const std::string& length_field);

/// Reads `prompt`, a text, texts, token ids or lists of token ids, into the plan; the prompts as
/// texts go to `texts` where it is given. Throws BadRequest.
void read_prompts(const Call& call, GenerationPlan& plan,
                  std::vector<std::string>* texts = nullptr);

/// A server-sent event with one JSON value.
std::string event(const std::string& json);
/// The same with a name, as /v1/responses uses it.
std::string named_event(const std::string& name, const std::string& json);

/// Tokens of a prompt; the begin token alone where the text is empty.
std::vector<int64_t> prompt_tokens(const LoadedModel& model, const std::string& text,
                                   bool add_special);

/// "cmpl-…": unique within this process and unlikely elsewhere.
std::string new_id(const std::string& prefix);

void write_usage(JsonWriter& json, const Usage& usage);
/// Tells the access log.
void annotate_usage(const Call& call, const Usage& usage);

/// Bytes of a token's text, as a list for `bytes`, and the text itself.
std::string token_text(const LoadedModel& model, int64_t id);

}  // namespace heed::serve
