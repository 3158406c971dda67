#include "serve/responses_input.h"

#include <fmt/format.h>

#include <optional>

#include "io/json_writer.h"

namespace heed::serve {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw BadRequest(message, "input"); }

std::string text_of(const Json& item, const char* name) {
  const auto value = item.find(name);
  if (!value || !value->is_string()) {
    refuse(fmt::format("an item of 'input' of type {} needs a string '{}'", item.string("type"),
                       name));
  }
  return value->string();
}

/// The text of an item's content or output: a string, or parts with text.
std::string joined_text(const Json& content) {
  if (content.is_string()) {
    return content.string();
  }
  if (!content.is_array()) {
    refuse("the content of an item of 'input' must be a string or a list of parts");
  }
  std::string text;
  for (const Json& part : content.elements()) {
    const bool is_text = part.is_object() && part.has("text") && part.at("text").is_string();
    if (!is_text) {
      refuse("an item of 'input' has a part that is not text; this server takes text only");
    }
    text += part.string("text");
  }
  return text;
}

/// Writes a conversation; calls that follow one another become one message of the assistant.
class Conversation {
 public:
  Conversation() { json_.begin_array(); }

  void add(const std::string& role, const std::string& content) {
    close_calls();
    json_.begin_object().field("role", role).field("content", content).end_object();
  }
  void add_call(const std::string& id, const std::string& name, const std::string& arguments) {
    if (!in_calls_) {
      json_.begin_object().field("role", "assistant").field("content", "");
      json_.key("tool_calls").begin_array();
      in_calls_ = true;
    }
    json_.begin_object().field("id", id).field("type", "function").key("function").begin_object();
    json_.field("name", name).field("arguments", arguments).end_object().end_object();
  }
  void add_output(const std::string& id, const std::string& output) {
    close_calls();
    json_.begin_object().field("role", "tool").field("tool_call_id", id);
    json_.field("content", output).end_object();
  }
  std::string take() {
    close_calls();
    return json_.end_array().take();
  }

 private:
  void close_calls() {
    if (in_calls_) {
      json_.end_array().end_object();
    }
    in_calls_ = false;
  }

  JsonWriter json_;
  bool in_calls_ = false;
};

void add_item(const Json& item, Conversation& to) {
  const auto type = item.is_object() ? item.find("type") : std::nullopt;
  const std::string kind = type && type->is_string() ? type->string() : "message";
  if (kind == "function_call") {
    to.add_call(text_of(item, "call_id"), text_of(item, "name"), text_of(item, "arguments"));
  } else if (kind == "function_call_output") {
    const auto output = item.find("output");
    to.add_output(text_of(item, "call_id"), output ? joined_text(*output) : "");
  } else if (kind == "message") {
    if (!item.is_object() || !item.has("role") || !item.at("role").is_string() ||
        !item.has("content")) {
      refuse("an item of 'input' must be a message with role and content");
    }
    const std::string role = item.string("role");
    to.add(role == "developer" ? "system" : role, joined_text(item.at("content")));
  } else if (kind != "reasoning") {  // what a model thought is not shown to it again
    refuse(
        fmt::format("'input' has an item of type {}; there are message, function_call and "
                    "function_call_output",
                    type->dump()));
  }
}

}  // namespace

std::string input_messages(const Call& call) {
  if (call.has("previous_response_id") && !call.text("previous_response_id").empty()) {
    throw BadRequest(
        "'previous_response_id' is not supported: nothing is stored; send the "
        "conversation as 'input'",
        "previous_response_id");
  }
  Conversation conversation;
  if (call.has("instructions")) {
    conversation.add("system", call.text("instructions"));
  }
  const Json input = call.body->at("input");
  if (input.is_string()) {
    conversation.add("user", input.string());
  } else if (input.is_array() && input.size() > 0) {
    for (const Json& item : input.elements()) {
      add_item(item, conversation);
    }
  } else {
    refuse("'input' must be a string or a list of items");
  }
  return conversation.take();
}

}  // namespace heed::serve
