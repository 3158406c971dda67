#include <ctime>

#include "serve/handlers.h"
#include "serve/log_probabilities.h"
#include "serve/text_run.h"

namespace heed::serve {
namespace {

/// OpenAI's /v1/completions.
class CompletionFormat : public AnswerFormat {
 public:
  CompletionFormat(const Call& call, const GenerationPlan& plan, std::vector<std::string> echoed)
      : model_(call.model),
        model_name_(call.model_name),
        id_(new_id("cmpl-")),
        created_(std::time(nullptr)),
        log_probabilities_(plan.log_probabilities >= 0),
        include_usage_(plan.include_usage),
        echoed_(std::move(echoed)) {}

  const std::string& id() const override { return id_; }
  std::string whole(const std::vector<TextChoice>& choices, const Usage& usage) override {
    JsonWriter json;
    head(json).key("choices").begin_array();
    for (const TextChoice& choice : choices) {
      json.begin_object().field("text", echo(choice) + choice.text).field("index", choice.index);
      json.key("logprobs");
      log_probabilities(json, choice, 0, choice.tokens.size());
      json.field("finish_reason", choice.finish_reason).end_object();
    }
    json.end_array();
    write_usage(json, usage);
    return json.end_object().take();
  }

  std::string begin(const std::vector<TextChoice>& choices) override {
    std::string events;
    for (const TextChoice& choice : choices) {
      if (!echo(choice).empty()) {
        events += chunk(choice, echo(choice), 0, 0);
      }
    }
    return events;
  }
  std::string piece(const TextChoice& choice, const std::string& text, size_t token) override {
    return chunk(choice, text, token, token + 1);
  }
  std::string finish(const TextChoice& choice, const std::string& text) override {
    return chunk(choice, text, 0, 0);
  }
  std::string end(const std::vector<TextChoice>&, const Usage& usage) override {
    std::string events;
    if (include_usage_) {
      JsonWriter json;
      head(json).key("choices").begin_array().end_array();
      write_usage(json, usage);
      events = event(json.end_object().take());
    }
    return events + "data: [DONE]\n\n";
  }

 private:
  JsonWriter& head(JsonWriter& json) const {
    return json.begin_object()
        .field("id", id_)
        .field("object", "text_completion")
        .field("created", static_cast<int64_t>(created_))
        .field("model", model_name_)
        .field("system_fingerprint", kFingerprint);
  }

  const std::string& echo(const TextChoice& choice) const {
    static const std::string kNone;
    return echoed_.empty() ? kNone : echoed_[choice.prompt];
  }

  std::string chunk(const TextChoice& choice, const std::string& text, size_t from, size_t to) {
    JsonWriter json;
    head(json).key("choices").begin_array().begin_object();
    json.field("text", text).field("index", choice.index).key("logprobs");
    log_probabilities(json, choice, from, to);
    json.key("finish_reason");
    choice.finish_reason.empty() ? json.null() : json.value(choice.finish_reason);
    return event(json.end_object().end_array().end_object().take());
  }

  void log_probabilities(JsonWriter& json, const TextChoice& choice, size_t from, size_t to) const {
    if (!log_probabilities_ || from == to) {
      json.null();
      return;
    }
    size_t offset = echo(choice).size();
    for (size_t i = 0; i < from; ++i) {
      offset += token_text(*model_, choice.tokens[i].id).size();
    }
    write_completion_log_probabilities(json, *model_, choice, from, to, offset);
  }

  LoadedModelPtr model_;
  std::string model_name_, id_;
  std::time_t created_;
  bool log_probabilities_, include_usage_;
  std::vector<std::string> echoed_;
};

}  // namespace

void answer_completions(const CallPtr& call) {
  GenerationPlan plan = common_plan(*call, "max_tokens");
  plan.samples = call->integer("n");
  if (call->integer("best_of") > plan.samples) {
    throw BadRequest("'best_of' greater than 'n' is not supported", "best_of");
  }
  if (!call->text("suffix").empty()) {
    throw BadRequest("'suffix' is not supported", "suffix");
  }
  if (call->has("logprobs")) {
    plan.log_probabilities = call->integer("logprobs");
  }
  if (call->has("stream_options")) {
    plan.include_usage = call->body->at("stream_options").boolean_or("include_usage", false);
  }
  std::vector<std::string> texts;
  read_prompts(*call, plan, &texts);
  if (!call->flag("echo")) {
    texts.clear();
  }
  auto format = std::make_shared<CompletionFormat>(*call, plan, std::move(texts));
  run_generation(call, std::move(plan), std::move(format));
}

}  // namespace heed::serve
