#include <ctime>

#include "serve/chat_prompt.h"
#include "serve/handlers.h"
#include "serve/log_probabilities.h"
#include "serve/text_run.h"

namespace heed::serve {
namespace {

/// OpenAI's /v1/chat/completions.
class ChatFormat : public AnswerFormat {
 public:
  ChatFormat(const Call& call, const GenerationPlan& plan)
      : model_(call.model),
        model_name_(call.model_name),
        id_(new_id("chatcmpl-")),
        created_(std::time(nullptr)),
        log_probabilities_(plan.log_probabilities >= 0),
        include_usage_(plan.include_usage) {}

  std::string whole(const std::vector<TextChoice>& choices, const Usage& usage) override {
    JsonWriter json;
    head(json, "chat.completion").key("choices").begin_array();
    for (const TextChoice& choice : choices) {
      json.begin_object().field("index", choice.index).key("message").begin_object();
      json.field("role", "assistant").field("content", choice.text).key("refusal").null();
      json.end_object().key("logprobs");
      write_log_probabilities(json, choice, 0, choice.tokens.size());
      json.field("finish_reason", choice.finish_reason).end_object();
    }
    json.end_array();
    write_usage(json, usage);
    return json.end_object().take();
  }

  std::string begin(const std::vector<TextChoice>& choices) override {
    std::string events;
    for (const TextChoice& choice : choices) {
      events += chunk(choice, "\"role\":\"assistant\",\"content\":\"\"", 0, 0);
    }
    return events;
  }
  std::string piece(const TextChoice& choice, const std::string& text, size_t token) override {
    return chunk(choice, content(text), token, token + 1);
  }
  std::string finish(const TextChoice& choice, const std::string& text) override {
    return chunk(choice, text.empty() ? "" : content(text), 0, 0);
  }
  std::string end(const std::vector<TextChoice>&, const Usage& usage) override {
    std::string events;
    if (include_usage_) {
      JsonWriter json;
      head(json, "chat.completion.chunk").key("choices").begin_array().end_array();
      write_usage(json, usage);
      events = event(json.end_object().take());
    }
    return events + "data: [DONE]\n\n";
  }

 private:
  JsonWriter& head(JsonWriter& json, const char* object) const {
    return json.begin_object()
        .field("id", id_)
        .field("object", object)
        .field("created", static_cast<int64_t>(created_))
        .field("model", model_name_)
        .field("system_fingerprint", "heed");
  }
  static std::string content(const std::string& text) {
    std::string members = "\"content\":";
    append_json_string(members, text);
    return members;
  }
  /// One chunk; `members` is the inside of its delta.
  std::string chunk(const TextChoice& choice, const std::string& members, size_t from, size_t to) {
    JsonWriter json;
    head(json, "chat.completion.chunk").key("choices").begin_array().begin_object();
    json.field("index", choice.index).key("delta").raw("{" + members + "}").key("logprobs");
    write_log_probabilities(json, choice, from, to);
    json.key("finish_reason");
    choice.finish_reason.empty() ? json.null() : json.value(choice.finish_reason);
    json.end_object().end_array();
    if (include_usage_) {
      json.key("usage").null();
    }
    return event(json.end_object().take());
  }
  void write_log_probabilities(JsonWriter& json, const TextChoice& choice, size_t from, size_t to) {
    if (log_probabilities_ && from < to) {
      write_chat_log_probabilities(json, *model_, choice, from, to);
    } else {
      json.null();
    }
  }

  LoadedModelPtr model_;
  std::string model_name_, id_;
  std::time_t created_;
  bool log_probabilities_, include_usage_;
};

}  // namespace

void answer_chat_completions(const CallPtr& call) {
  const Json messages = call->body->at("messages");
  check_messages(messages);
  GenerationPlan plan = common_plan(
      *call, call->has("max_completion_tokens") ? "max_completion_tokens" : "max_tokens");
  plan.is_answer = true;
  plan.samples = call->integer("n");
  if (call->flag("logprobs")) {
    plan.log_probabilities = call->integer("top_logprobs");
  } else if (call->has("top_logprobs") && call->integer("top_logprobs") > 0) {
    throw BadRequest("'top_logprobs' needs 'logprobs' to be true", "top_logprobs");
  }
  if (call->has("stream_options")) {
    plan.include_usage = call->body->at("stream_options").boolean_or("include_usage", false);
  }
  const bool no_tools = call->has("tool_choice") && call->body->at("tool_choice").is_string() &&
                        call->body->string("tool_choice") == "none";
  const std::string tools =
      call->has("tools") && !no_tools ? call->body->at("tools").dump() : std::string();
  const std::string variables =
      call->has("chat_template_kwargs") ? call->body->at("chat_template_kwargs").dump() : "";
  plan.prompts.push_back(
      chat_tokens(*call->model, render_chat(*call->model, messages.dump(), tools, variables)));
  auto format = std::make_shared<ChatFormat>(*call, plan);
  run_generation(call, std::move(plan), std::move(format));
}

}  // namespace heed::serve
