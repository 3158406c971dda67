#include "serve/chat_prompt.h"

#include <fmt/format.h>

#include "heed/error.h"
#include "io/json_writer.h"
#include "serve/field.h"
#include "serve/text_run.h"

namespace heed::serve {

std::string render_chat(const LoadedModel& model, const std::string& messages,
                        const std::string& tools, const std::string& variables,
                        bool add_generation_prompt) {
  if (!model.chat_template) {
    throw BadRequest(
        fmt::format("{} has no chat template; use /v1/completions with a prompt", model.name),
        "messages", "no_chat_template");
  }
  ChatOptions options;
  options.add_generation_prompt = add_generation_prompt;
  options.tools = tools;
  options.variables = variables;
  try {
    return model.chat_template->render(messages, options);
  } catch (const Error& error) {
    throw BadRequest(
        std::string("the model's chat template refuses the conversation: ") + error.what(),
        "messages");
  }
}

void check_messages(const Json& messages) {
  if (messages.size() == 0) {
    throw BadRequest("'messages' is empty; at least one message is wanted", "messages");
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::optional<Json> content = messages[i].find("content");
    const std::string path = fmt::format("messages[{}].content", i);
    if (!content || content->is_string()) {
      continue;  // a message that only calls a tool has none
    }
    if (!content->is_array()) {
      throw BadRequest(fmt::format("'{}' must be a string or a list of parts", path), path);
    }
    for (const Json& part : content->elements()) {
      if (!part.is_object() || !part.has("type") || !part.at("type").is_string()) {
        throw BadRequest(fmt::format("a part of '{}' must be an object with a type", path), path);
      }
      if (part.string("type") != "text" || !part.has("text") || !part.at("text").is_string()) {
        throw BadRequest(
            fmt::format("'{}' has a part that is not text; this server takes text only", path),
            path);
      }
    }
  }
}

namespace {

/// The content of a message as one text.
std::string content_text(const Json& message) {
  const std::optional<Json> content = message.find("content");
  if (!content || content->is_string()) {
    return content ? content->string() : "";
  }
  std::string text;
  for (const Json& part : content->elements()) {
    text += (text.empty() ? "" : "\n\n") + part.string("text");
  }
  return text;
}

bool is_assistant(const Json& message) { return message.string("role") == "assistant"; }

}  // namespace

RenderedPrompt rendered_prompt(const Call& call, bool with_tools) {
  const Json messages = call.body->at("messages");
  const size_t count = messages.size();
  const auto field = [&](const char* name) {
    return call.has(name) ? call.body->at(name).dump() : std::string();
  };
  const std::string tools = with_tools ? field("tools") : "";
  const std::string variables = field("chat_template_kwargs");
  const bool last_assistant = is_assistant(messages[count - 1]);
  const bool begins = call.has("add_generation_prompt") ? call.flag("add_generation_prompt") : true;
  const bool asked = call.has("continue_final_message") && call.flag("continue_final_message");
  if (asked && call.has("add_generation_prompt") && begins) {
    throw BadRequest("'continue_final_message' and 'add_generation_prompt' exclude each other",
                     "continue_final_message");
  }
  if (asked && !last_assistant) {
    throw BadRequest("'continue_final_message' needs a last message of the assistant",
                     "continue_final_message");
  }
  if (!last_assistant || (!asked && call.has("continue_final_message"))) {
    return {render_chat(*call.model, messages.dump(), tools, variables, begins), false};
  }
  if (count >= 2 && is_assistant(messages[count - 2])) {
    throw BadRequest("'messages' ends with two messages of the assistant", "messages");
  }
  JsonWriter before;
  before.begin_array();
  for (size_t i = 0; i + 1 < count; ++i) {
    before.raw(messages[i].dump());
  }
  const std::string list = before.end_array().take();
  return {(count == 1 ? "" : render_chat(*call.model, list, tools, variables)) +
              content_text(messages[count - 1]),
          true};
}

std::vector<int64_t> chat_tokens(const LoadedModel& model, const std::string& prompt) {
  return prompt_tokens(model, prompt, false);
}

}  // namespace heed::serve
