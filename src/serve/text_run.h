#pragma once

#include <chrono>
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
  TextChoice(const LoadedModel& model, std::vector<std::string> stops,
             const std::vector<int64_t>& continued)
      : stream(model.tokenizer, std::move(stops), continued) {}

  int64_t index = 0;  ///< among all choices of the answer
  size_t prompt = 0;
  TextStream stream;
  std::vector<int64_t> end;  ///< tokens that end it and are no part of the text
  std::string text;
  std::vector<TokenRecord> tokens;
  std::string finish_reason;  ///< "stop" or "length"; empty while it goes on

  // How far the prompt has been read, and when things happened.
  int64_t prompt_tokens = 0, read_tokens = 0, cached_tokens = 0;
  std::chrono::steady_clock::time_point began = {}, first_token = {}, last_token = {};
};

/// Tokens and times of a choice, as llama.cpp's server shows them: milliseconds for the prompt, and
/// for what follows the first token.
void write_timings(JsonWriter& json, const TextChoice& choice);

/// What is generated, independent of how the answer looks.
struct GenerationPlan {
  std::vector<std::vector<int64_t>> prompts;
  std::vector<ModelInput> encoder_inputs;  ///< of an encoder-decoder, one per prompt
  int64_t samples = 1;                     ///< of each prompt
  int64_t max_tokens = 16;
  std::vector<std::string> stops;
  std::vector<int64_t> stop_token_ids;
  Sampling sampling;
  std::shared_ptr<const TokenConstraint> constraint;  ///< what the texts must look like
  bool is_answer = false;                             ///< the texts do not continue their prompts
  bool ignore_end = false;                            ///< end tokens do not end the text
  bool stream = false;
  bool include_usage = false;      ///< a last chunk with the usage, while streaming
  bool progress = false;           ///< events while prompts are read, while streaming
  int64_t log_probabilities = -1;  ///< how many alternatives are shown; -1: none wanted
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;  ///< of the prompts', taken from another sequence
};

/// What chat and text completions name as the software that answered. It begins as llama.cpp's
/// does, which its clients look at.
inline constexpr const char* kFingerprint = "b1-heed";

/// How far a prompt has been read.
void write_progress(JsonWriter& json, const TextChoice& choice);

/// How an answer looks: one class per API. All functions run on the engine's thread.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  /// The whole answer, where it is not streamed.
  virtual std::string whole(const std::vector<TextChoice>& choices, const Usage& usage) = 0;
  /// What the client calls the answer; /heed/v1/trace finds the request by it.
  virtual const std::string& id() const = 0;
  /// Events while a prompt is read, where the plan asks for them.
  virtual std::string progress(const TextChoice&) { return {}; }
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
