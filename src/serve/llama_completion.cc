#include "serve/handlers.h"
#include "serve/text_run.h"

namespace heed::serve {
namespace {

/// llama.cpp's /completion: `content` and `stop` in every event.
class LlamaFormat : public AnswerFormat {
 public:
  explicit LlamaFormat(const Call& call) : model_(call.model), model_name_(call.model_name) {}

  std::string whole(const std::vector<TextChoice>& choices, const Usage& usage) override {
    return last(choices.front(), choices.front().text, usage);
  }
  std::string piece(const TextChoice& choice, const std::string& text, size_t token) override {
    JsonWriter json;
    json.begin_object().field("index", choice.index).field("content", text);
    json.key("tokens").begin_array().value(choice.tokens[token].id).end_array();
    return event(json.field("stop", false).end_object().take());
  }
  std::string finish(const TextChoice&, const std::string& text) override {
    rest_ = text;
    return {};
  }
  std::string end(const std::vector<TextChoice>& choices, const Usage& usage) override {
    return event(last(choices.front(), rest_, usage));
  }

 private:
  std::string last(const TextChoice& choice, const std::string& text, const Usage& usage) const {
    const bool at_word = choice.stream.stopped();
    JsonWriter json;
    json.begin_object().field("index", choice.index).field("content", text);
    json.key("tokens").begin_array();
    for (const TokenRecord& token : choice.tokens) {
      json.value(token.id);
    }
    json.end_array().field("stop", true).field("model", model_name_);
    json.field("tokens_predicted", usage.completion_tokens);
    json.field("tokens_evaluated", usage.prompt_tokens);
    json.field("stop_type", at_word ? "word" : choice.finish_reason == "stop" ? "eos" : "limit");
    json.field("truncated", false);
    return json.end_object().take();
  }

  LoadedModelPtr model_;
  std::string model_name_, rest_;
};

}  // namespace

void answer_llama_completion(const CallPtr& call) {
  GenerationPlan plan = common_plan(*call, "n_predict");
  plan.ignore_end = call->flag("ignore_eos");
  read_prompts(*call, plan);
  if (plan.prompts.size() != 1) {
    throw BadRequest("/completion takes one prompt; /v1/completions takes several", "prompt");
  }
  auto format = std::make_shared<LlamaFormat>(*call);
  run_generation(call, std::move(plan), std::move(format));
}

}  // namespace heed::serve
