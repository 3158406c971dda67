#include <ctime>

#include "serve/chat_prompt.h"
#include "serve/constraint.h"
#include "serve/handlers.h"
#include "serve/responses_input.h"
#include "serve/tool_use.h"

namespace heed::serve {
namespace {

/// OpenAI's /v1/responses: a message and calls of functions, as a whole or as named events.
class ResponsesFormat : public AnswerFormat {
 public:
  ResponsesFormat(const Call& call, ToolUse tools)
      : model_name_(call.model_name),
        id_(new_id("resp_")),
        message_id_(new_id("msg_")),
        created_(std::time(nullptr)),
        tools_(std::move(tools)),
        settings_(settings_of(call)),
        timings_(call.flag("timings_per_token")) {}

  const std::string& id() const override { return id_; }

  std::string whole(const std::vector<TextChoice>& choices, const Usage& usage) override {
    const ToolAnswer answer = tools_.take_apart(choices.front().text);
    content_ = answer.content;
    has_message_ = !content_.empty() || answer.calls.empty();
    name_calls(answer.calls);
    return response(status_of(choices.front()), output_items(), &usage);
  }

  std::string begin(const std::vector<TextChoice>&) override {
    const std::string empty = response("in_progress", "", nullptr);
    const std::string events = send("response.created", ",\"response\":" + empty);
    return events + send("response.in_progress", ",\"response\":" + empty);
  }
  std::string progress(const TextChoice& choice) override {
    JsonWriter json;
    write_progress(json.begin_object(), choice);
    const std::string members = json.end_object().take();  // {…}: its members follow the response
    return send("response.in_progress", ",\"response\":" + response("in_progress", "", nullptr) +
                                            "," + members.substr(1, members.size() - 2));
  }
  std::string piece(const TextChoice& choice, const std::string& text, size_t) override {
    if (tools_.names.empty()) {
      return text.empty() ? "" : delta(choice, text);
    }
    const size_t shown = content_.size();
    const size_t end = std::max(shown_before_call(choice.text), shown);
    return end > shown ? delta(choice, choice.text.substr(shown, end - shown)) : "";
  }
  std::string finish(const TextChoice& choice, const std::string&) override {
    const ToolAnswer answer = tools_.take_apart(choice.text);
    const size_t shown = content_.size();
    std::string events =
        answer.content.size() > shown ? delta(choice, answer.content.substr(shown)) : "";
    if (!has_message_ && answer.calls.empty()) {
      events += open_message();
    }
    if (has_message_) {
      std::string quoted;
      append_json_string(quoted, content_);
      events +=
          send("response.output_text.done", place() + ",\"text\":" + quoted + ",\"logprobs\":[]");
      events += send("response.content_part.done", place() + ",\"part\":" + part(content_));
      events += send("response.output_item.done",
                     ",\"output_index\":0,\"item\":" + message(content_, "completed"));
    }
    name_calls(answer.calls);
    for (size_t i = 0; i < calls_.size(); ++i) {
      events += call_events(calls_[i], i + (has_message_ ? 1 : 0));
    }
    return events;
  }
  std::string end(const std::vector<TextChoice>& choices, const Usage& usage) override {
    const TextChoice& choice = choices.front();
    const std::string status = status_of(choice);
    return send("response." + status,
                ",\"response\":" + response(status, output_items(), &usage) + timings(choice));
  }

 private:
  struct NamedCall {
    std::string item_id, call_id;
    ToolCall call;
  };

  /// What the answer repeats of the request.
  static std::string settings_of(const Call& call) {
    const auto given = [&](const char* name, const char* otherwise) {
      return call.has(name) ? call.body->at(name).dump() : std::string(otherwise);
    };
    JsonWriter json;
    json.begin_object().field("parallel_tool_calls", call.flag("parallel_tool_calls"));
    json.key("tools")
        .raw(given("tools", "[]"))
        .key("tool_choice")
        .raw(given("tool_choice", "\"auto\""));
    json.field("temperature", call.number("temperature")).field("top_p", call.number("top_p"));
    json.key("max_output_tokens").raw(given("max_output_tokens", "null"));
    json.key("metadata").raw(given("metadata", "{}"));
    json.key("instructions").raw(given("instructions", "null"));
    json.key("text").raw(given("text", "{\"format\":{\"type\":\"text\"}}"));
    json.key("previous_response_id").null().field("store", false);
    const std::string object = json.end_object().take();
    return object.substr(1, object.size() - 2);
  }
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
  std::string open_message() {
    has_message_ = true;
    const std::string added =
        send("response.output_item.added",
             ",\"output_index\":0,\"item\":" + message("", "in_progress", false));
    return added + send("response.content_part.added", place() + ",\"part\":" + part(""));
  }
  std::string delta(const TextChoice& choice, const std::string& text) {
    std::string events = has_message_ ? "" : open_message();
    content_ += text;
    std::string quoted;
    append_json_string(quoted, text);
    return events + send("response.output_text.delta",
                         place() + ",\"delta\":" + quoted + ",\"logprobs\":[]" + timings(choice));
  }
  std::string call_events(const NamedCall& call, size_t index) {
    const std::string at = ",\"output_index\":" + std::to_string(index);
    const std::string place = ",\"item_id\":\"" + call.item_id + "\"" + at;
    std::string arguments, name;
    append_json_string(arguments, call.call.arguments);
    append_json_string(name, call.call.name);
    std::string events =  // one after the other: each has a number
        send("response.output_item.added", at + ",\"item\":" + call_item(call, false));
    events += send("response.function_call_arguments.delta", place + ",\"delta\":" + arguments);
    events += send("response.function_call_arguments.done",
                   place + ",\"name\":" + name + ",\"arguments\":" + arguments);
    events += send("response.output_item.done", at + ",\"item\":" + call_item(call, true));
    return events;
  }
  /// ,"timings":{…} where the client wants them.
  std::string timings(const TextChoice& choice) const {
    if (!timings_) {
      return {};
    }
    JsonWriter json;
    write_timings(json.begin_object(), choice);
    const std::string object = json.end_object().take();
    return "," + object.substr(1, object.size() - 2);
  }
  void name_calls(const std::vector<ToolCall>& calls) {
    for (const ToolCall& call : calls) {
      calls_.push_back({new_id("fc_"), new_id("call_"), call});
    }
  }
  static std::string part(const std::string& text) {
    JsonWriter json;
    json.begin_object().field("type", "output_text").field("text", text);
    json.key("annotations").begin_array().end_array().key("logprobs").begin_array().end_array();
    return json.end_object().take();
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
  static std::string call_item(const NamedCall& call, bool complete) {
    JsonWriter json;
    json.begin_object().field("type", "function_call").field("id", call.item_id);
    json.field("call_id", call.call_id).field("name", call.call.name);
    json.field("arguments", complete ? call.call.arguments : "");
    return json.field("status", complete ? "completed" : "in_progress").end_object().take();
  }
  std::string output_items() const {
    std::string items = has_message_ ? message(content_, "completed") : "";
    for (const NamedCall& call : calls_) {
      items += (items.empty() ? "" : ",") + call_item(call, true);
    }
    return items;
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
    json.field("model", model_name_).key("output").raw("[" + output + "]");
    json.key("usage");
    if (usage == nullptr) {
      json.null();
    } else {
      json.begin_object().field("input_tokens", usage->prompt_tokens);
      json.key("input_tokens_details").begin_object();
      json.field("cached_tokens", usage->cached_tokens).end_object();
      json.field("output_tokens", usage->completion_tokens);
      json.key("output_tokens_details").raw("{\"reasoning_tokens\":0}");
      json.field("total_tokens", usage->prompt_tokens + usage->completion_tokens).end_object();
    }
    std::string object = json.end_object().take();
    object.pop_back();
    return object + "," + settings_ + "}";
  }

  std::string model_name_, id_, message_id_;
  std::time_t created_;
  ToolUse tools_;
  std::string settings_;
  bool timings_;
  int64_t sequence_ = 0;
  bool has_message_ = false;      // begun, or in the answer
  std::string content_;           // of the message, as far as it has been sent
  std::vector<NamedCall> calls_;  // known at the end
};

std::vector<int64_t> prompt_of(const Call& call, const ToolUse& use) {
  const std::string tools =
      use.names.empty() ? "" : tools_as_written(call.exchange->request().body);
  return chat_tokens(*call.model, render_chat(*call.model, input_messages(call), tools, ""));
}

}  // namespace

void answer_response_tokens(const CallPtr& call) {
  GenerationPlan plan = common_plan(*call, "max_output_tokens");
  const auto count = prompt_of(*call, read_tool_use(*call, plan)).size();
  JsonWriter json;
  json.begin_object().field("object", "response.input_tokens");
  call->reply(json.field("input_tokens", count).end_object().take());
}

void answer_responses(const CallPtr& call) {
  GenerationPlan plan = common_plan(*call, "max_output_tokens");
  plan.is_answer = true;
  plan.progress = call->flag("return_progress");
  if (call->has("text") && call->body->at("text").has("format")) {
    if (plan.constraint) {
      throw BadRequest("'text.format' and another form of the answer exclude each other", "text");
    }
    plan.constraint = format_constraint(*call, call->body->at("text").at("format"), "/text/format");
  }
  ToolUse use = read_tool_use(*call, plan);
  plan.prompts.push_back(prompt_of(*call, use));
  auto format = std::make_shared<ResponsesFormat>(*call, std::move(use));
  run_generation(call, std::move(plan), std::move(format));
}

}  // namespace heed::serve
