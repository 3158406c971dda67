#include <ctime>

#include "serve/chat_prompt.h"
#include "serve/handlers.h"
#include "serve/log_probabilities.h"
#include "serve/text_run.h"
#include "serve/tool_use.h"

namespace heed::serve {
namespace {

/// What a chat request says about how its answer looks.
struct ChatView {
  bool log_probabilities = false;
  bool include_usage = false;
  bool timings = false;  ///< with every chunk
  ToolUse tools;
  std::string shown_prompt;  ///< for `__verbose`; empty: not asked for
};

/// OpenAI's /v1/chat/completions.
class ChatFormat : public AnswerFormat {
 public:
  ChatFormat(const Call& call, ChatView view)
      : model_(call.model),
        model_name_(call.model_name),
        id_(new_id("chatcmpl-")),
        created_(std::time(nullptr)),
        view_(std::move(view)) {}

  const std::string& id() const override { return id_; }

  std::string whole(const std::vector<TextChoice>& choices, const Usage& usage) override {
    JsonWriter json;
    head(json, "chat.completion").key("choices").begin_array();
    for (const TextChoice& choice : choices) {
      const ToolAnswer answer = view_.tools.take_apart(choice.text);
      json.begin_object().field("index", choice.index).key("message").begin_object();
      json.field("role", "assistant").key("content");
      answer.content.empty() && !answer.calls.empty() ? json.null() : json.value(answer.content);
      json.key("refusal").null();
      if (!answer.calls.empty()) {
        json.key("tool_calls").begin_array();
        for (const ToolCall& call : answer.calls) {
          write_call(json.begin_object(), call).end_object();
        }
        json.end_array();
      }
      json.end_object().key("logprobs");
      write_log_probabilities(json, choice, 0, choice.tokens.size());
      json.field("finish_reason", reason(choice, answer)).end_object();
    }
    json.end_array();
    write_usage(json, usage);
    write_timings(json, choices.front());
    if (!view_.shown_prompt.empty()) {
      json.key("__verbose").begin_object().field("prompt", view_.shown_prompt).end_object();
    }
    return json.end_object().take();
  }

  std::string begin(const std::vector<TextChoice>& choices) override {
    shown_.assign(choices.size(), 0);
    std::string events;
    for (const TextChoice& choice : choices) {
      events += chunk(choice, "\"role\":\"assistant\",\"content\":null", "", 0, 0);
    }
    return events;
  }
  std::string piece(const TextChoice& choice, const std::string& text, size_t token) override {
    const std::string shown = view_.tools.names.empty() ? text : newly_shown(choice);
    if (shown.empty() && !view_.log_probabilities) {
      return {};
    }
    return chunk(choice, shown.empty() ? "" : content(shown), "", token, token + 1);
  }
  std::string finish(const TextChoice& choice, const std::string& text) override {
    if (view_.tools.names.empty()) {
      return (text.empty() ? "" : chunk(choice, content(text), "", 0, 0)) +
             chunk(choice, "", choice.finish_reason, 0, 0);
    }
    const ToolAnswer answer = view_.tools.take_apart(choice.text);
    const size_t shown = shown_[static_cast<size_t>(choice.index)];
    const std::string rest = answer.content.size() > shown ? answer.content.substr(shown) : "";
    std::string events = rest.empty() ? "" : chunk(choice, content(rest), "", 0, 0);
    for (size_t i = 0; i < answer.calls.size(); ++i) {
      JsonWriter json;
      write_call(json.begin_object().field("index", i), answer.calls[i]).end_object();
      events += chunk(choice, "\"tool_calls\":[" + json.take() + "]", "", 0, 0);
    }
    return events + chunk(choice, "", reason(choice, answer), 0, 0);
  }
  std::string end(const std::vector<TextChoice>& choices, const Usage& usage) override {
    std::string events;
    if (view_.include_usage) {
      JsonWriter json;
      head(json, "chat.completion.chunk").key("choices").begin_array().end_array();
      write_usage(json, usage);
      write_timings(json, choices.front());
      events = event(json.end_object().take());
    }
    return events + "data: [DONE]\n\n";
  }
  std::string progress(const TextChoice& choice) override {
    JsonWriter json;
    head(json, "chat.completion.chunk").key("choices").begin_array().begin_object();
    json.field("index", choice.index).key("delta").begin_object().end_object();
    json.key("finish_reason").null().end_object().end_array();
    write_progress(json, choice);
    return event(json.end_object().take());
  }

 private:
  JsonWriter& head(JsonWriter& json, const char* object) const {
    return json.begin_object()
        .field("id", id_)
        .field("object", object)
        .field("created", static_cast<int64_t>(created_))
        .field("model", model_name_)
        .field("system_fingerprint", kFingerprint);
  }
  static std::string content(const std::string& text) {
    std::string members = "\"content\":";
    append_json_string(members, text);
    return members;
  }
  JsonWriter& write_call(JsonWriter& json, const ToolCall& call) const {
    json.field("id", new_id("call_")).field("type", "function").key("function").begin_object();
    return json.field("name", call.name).field("arguments", call.arguments).end_object();
  }
  static std::string reason(const TextChoice& choice, const ToolAnswer& answer) {
    return !answer.calls.empty() && choice.finish_reason == "stop" ? "tool_calls"
                                                                   : choice.finish_reason;
  }
  /// Text of a stream that is certainly no call and has not been sent.
  std::string newly_shown(const TextChoice& choice) {
    size_t& shown = shown_[static_cast<size_t>(choice.index)];
    const size_t end = std::max(shown_before_call(choice.text), shown);
    return choice.text.substr(std::exchange(shown, end), end - shown);
  }
  /// One chunk; `members` is the inside of its delta.
  std::string chunk(const TextChoice& choice, const std::string& members,
                    const std::string& finish_reason, size_t from, size_t to) {
    JsonWriter json;
    head(json, "chat.completion.chunk").key("choices").begin_array().begin_object();
    json.field("index", choice.index).key("delta").raw("{" + members + "}").key("logprobs");
    write_log_probabilities(json, choice, from, to);
    json.key("finish_reason");
    finish_reason.empty() ? json.null() : json.value(finish_reason);
    json.end_object().end_array();
    if (view_.include_usage) {
      json.key("usage").null();
    }
    if (view_.timings && !choice.tokens.empty()) {
      write_timings(json, choice);
    }
    return event(json.end_object().take());
  }
  void write_log_probabilities(JsonWriter& json, const TextChoice& choice, size_t from, size_t to) {
    if (view_.log_probabilities && from < to) {
      write_chat_log_probabilities(json, *model_, choice, from, to);
    } else {
      json.null();
    }
  }

  LoadedModelPtr model_;
  std::string model_name_, id_;
  std::time_t created_;
  ChatView view_;
  std::vector<size_t> shown_;  // bytes of each choice's text that have been sent
};

}  // namespace

void answer_chat_completions(const CallPtr& call) {
  check_messages(call->body->at("messages"));
  GenerationPlan plan = common_plan(
      *call, call->has("max_completion_tokens") ? "max_completion_tokens" : "max_tokens");
  plan.samples = call->integer("n");
  if (call->flag("logprobs")) {
    plan.log_probabilities = call->integer("top_logprobs");
  } else if (call->has("top_logprobs") && call->integer("top_logprobs") > 0) {
    throw BadRequest("'top_logprobs' needs 'logprobs' to be true", "top_logprobs");
  }
  plan.progress = call->flag("return_progress");
  ChatView view;
  view.log_probabilities = plan.log_probabilities >= 0;
  if (call->has("stream_options")) {
    view.include_usage = call->body->at("stream_options").boolean_or("include_usage", false);
  }
  view.timings = call->flag("timings_per_token");
  view.tools = read_tool_use(*call, plan);
  const RenderedPrompt prompt = rendered_prompt(*call, !view.tools.names.empty());
  plan.is_answer = !prompt.continues;
  plan.prompts.push_back(chat_tokens(*call->model, prompt.text));
  if (call->flag("verbose")) {
    view.shown_prompt = prompt.text;
  }
  auto format = std::make_shared<ChatFormat>(*call, std::move(view));
  run_generation(call, std::move(plan), std::move(format));
}

}  // namespace heed::serve
