#include <ctime>

#include "serve/chat_prompt.h"
#include "serve/handlers.h"
#include "serve/text_run.h"

namespace heed::serve {
namespace {

/// OpenAI's /v1/responses: one message of text, as a whole or as named events.
class ResponsesFormat : public AnswerFormat {
 public:
  explicit ResponsesFormat(const Call& call)
      : model_name_(call.model_name),
        id_(new_id("resp_")),
        message_id_(new_id("msg_")),
        created_(std::time(nullptr)),
        temperature_(call.number("temperature")),
        top_p_(call.number("top_p")) {}

  const std::string& id() const override { return id_; }
  std::string whole(const std::vector<TextChoice>& choices, const Usage& usage) override {
    return response(status_of(choices.front()), message(choices.front().text, "completed"), &usage);
  }

  std::string begin(const std::vector<TextChoice>&) override {
    const std::string empty = response("in_progress", "", nullptr);
    std::string events = send("response.created", ",\"response\":" + empty);
    events += send("response.in_progress", ",\"response\":" + empty);
    events += send("response.output_item.added",
                   ",\"output_index\":0,\"item\":" + message("", "in_progress", false));
    return events + send("response.content_part.added", place() + ",\"part\":" + part(""));
  }
  std::string piece(const TextChoice&, const std::string& text, size_t) override {
    return delta(text);
  }
  std::string finish(const TextChoice& choice, const std::string& text) override {
    std::string events = text.empty() ? "" : delta(text);
    std::string quoted;
    append_json_string(quoted, choice.text);
    events += send("response.output_text.done", place() + ",\"text\":" + quoted);
    events += send("response.content_part.done", place() + ",\"part\":" + part(choice.text));
    return events + send("response.output_item.done",
                         ",\"output_index\":0,\"item\":" + message(choice.text, "completed"));
  }
  std::string end(const std::vector<TextChoice>& choices, const Usage& usage) override {
    const TextChoice& choice = choices.front();
    const std::string status = status_of(choice);
    return send("response." + status,
                ",\"response\":" + response(status, message(choice.text, "completed"), &usage));
  }

 private:
  static std::string status_of(const TextChoice& choice) {
    return choice.finish_reason == "length" ? "incomplete" : "completed";
  }
  /// A named event; `members` follow its type and number.
  std::string send(const std::string& name, const std::string& members) {
    return named_event(name, "{\"type\":\"" + name + "\",\"sequence_number\":" +
                                 std::to_string(sequence_++) + members + "}");
  }
  std::string place() const {
    return ",\"item_id\":\"" + message_id_ + "\",\"output_index\":0,\"content_index\":0";
  }
  std::string delta(const std::string& text) {
    std::string quoted;
    append_json_string(quoted, text);
    return send("response.output_text.delta", place() + ",\"delta\":" + quoted);
  }
  static std::string part(const std::string& text) {
    JsonWriter json;
    json.begin_object().field("type", "output_text").field("text", text);
    return json.key("annotations").begin_array().end_array().end_object().take();
  }
  std::string message(const std::string& text, const char* status, bool with_part = true) const {
    JsonWriter json;
    json.begin_object().field("type", "message").field("id", message_id_).field("status", status);
    json.field("role", "assistant").key("content").begin_array();
    if (with_part) {
      json.raw(part(text));
    }
    return json.end_array().end_object().take();
  }
  std::string response(const std::string& status, const std::string& output,
                       const Usage* usage) const {
    JsonWriter json;
    json.begin_object().field("id", id_).field("object", "response");
    json.field("created_at", static_cast<int64_t>(created_)).field("status", status);
    json.key("error").null().key("incomplete_details");
    if (status == "incomplete") {
      json.begin_object().field("reason", "max_output_tokens").end_object();
    } else {
      json.null();
    }
    json.field("model", model_name_).key("output").begin_array();
    if (!output.empty()) {
      json.raw(output);
    }
    json.end_array().field("parallel_tool_calls", true).key("tools").begin_array().end_array();
    json.field("tool_choice", "auto").field("temperature", temperature_).field("top_p", top_p_);
    json.key("metadata").begin_object().end_object().key("instructions").null();
    json.key("usage");
    if (usage == nullptr) {
      json.null();
    } else {
      json.begin_object().field("input_tokens", usage->prompt_tokens);
      json.key("input_tokens_details").raw("{\"cached_tokens\":0}");
      json.field("output_tokens", usage->completion_tokens);
      json.key("output_tokens_details").raw("{\"reasoning_tokens\":0}");
      json.field("total_tokens", usage->prompt_tokens + usage->completion_tokens).end_object();
    }
    return json.end_object().take();
  }

  std::string model_name_, id_, message_id_;
  std::time_t created_;
  double temperature_, top_p_;
  int64_t sequence_ = 0;
};

/// The text of an item's content: a string, or parts of input_text.
std::string content_text(const Json& content) {
  if (content.is_string()) {
    return content.string();
  }
  if (!content.is_array()) {
    throw BadRequest("the content of an item of 'input' must be a string or a list of parts",
                     "input");
  }
  std::string text;
  for (const Json& part : content.elements()) {
    const bool is_text = part.is_object() && part.has("text") && part.at("text").is_string();
    if (!is_text) {
      throw BadRequest(
          "an item of 'input' has a part that is not text; this server takes text "
          "only",
          "input");
    }
    text += part.string("text");
  }
  return text;
}

/// `instructions` and `input` as the messages that a chat template takes.
std::string as_messages(const Call& call) {
  JsonWriter json;
  json.begin_array();
  const auto add = [&](const std::string& role, const std::string& content) {
    json.begin_object().field("role", role).field("content", content).end_object();
  };
  if (call.has("instructions")) {
    add("system", call.text("instructions"));
  }
  const Json input = call.body->at("input");
  if (input.is_string()) {
    add("user", input.string());
  } else if (input.is_array() && input.size() > 0) {
    for (const Json& item : input.elements()) {
      if (!item.is_object() || !item.has("role") || !item.at("role").is_string() ||
          !item.has("content")) {
        throw BadRequest("an item of 'input' must be a message with role and content", "input");
      }
      const std::string role = item.string("role");
      add(role == "developer" ? "system" : role, content_text(item.at("content")));
    }
  } else {
    throw BadRequest("'input' must be a string or a list of messages", "input");
  }
  return json.end_array().take();
}

}  // namespace

void answer_responses(const CallPtr& call) {
  GenerationPlan plan = common_plan(*call, "max_output_tokens");
  plan.is_answer = true;
  const std::string prompt = render_chat(*call->model, as_messages(*call), "", "");
  plan.prompts.push_back(chat_tokens(*call->model, prompt));
  auto format = std::make_shared<ResponsesFormat>(*call);
  run_generation(call, std::move(plan), std::move(format));
}

}  // namespace heed::serve
