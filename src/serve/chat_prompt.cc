#include "serve/chat_prompt.h"

#include <fmt/format.h>

#include "heed/error.h"
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
    throw BadRequest("'messages' is empty; at least one message is expected", "messages");
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

std::vector<int64_t> chat_tokens(const LoadedModel& model, const std::string& prompt) {
  return prompt_tokens(model, prompt, false);
}

}  // namespace heed::serve
