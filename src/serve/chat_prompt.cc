#include "serve/chat_prompt.h"

#include <fmt/format.h>

#include "base/trimmed.h"
#include "heed/runtime.h"
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
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::optional<Json> content = messages[i].find("content");
    const std::string path = fmt::format("messages[{}].content", i);
    if (!content && !messages[i].has("tool_calls") && !messages[i].has("function_call")) {
      throw BadRequest(fmt::format("'{}' is missing", path), path, "missing_required_parameter");
    }
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

std::string joined_parts(const Json& parts, std::string_view separator) {
  std::string text;
  for (const Json& part : parts.elements()) {
    text.append(text.empty() ? "" : separator).append(part.string("text"));
  }
  return text;
}

/// The content of a message as one text.
std::string content_text(const Json& message) {
  const std::optional<Json> content = message.find("content");
  if (!content || content->is_string()) {
    return content ? content->string() : "";
  }
  return joined_parts(*content, "\n\n");
}

/// The first `count` messages as JSON. `plain`: lists of parts become one text each; `last` is set
/// to the last of these texts.
std::string dumped(const Json& messages, size_t count, bool plain,
                   std::optional<std::string>& last) {
  JsonWriter json;
  json.begin_array();
  for (size_t i = 0; i < count; ++i) {
    const std::optional<Json> content = messages[i].find("content");
    if (plain && content && content->is_array()) {
      last = joined_parts(*content, "\n");
      json.raw(JsonBuilder(messages[i]).set("content", *last).build().dump());
    } else {
      json.raw(messages[i].dump());
    }
  }
  return json.end_array().take();
}

/// Renders the first `count` messages. Most templates want a text where OpenAI's clients may send a
/// list of parts, and a few want the list: the form that the template writes out is taken.
std::string render_messages(const Call& call, size_t count, const std::string& tools,
                            const std::string& variables, bool add_generation_prompt) {
  const Json messages = call.body->at("messages");
  std::optional<std::string> last;
  const auto render = [&](bool plain) {
    return render_chat(*call.model, dumped(messages, count, plain, last), tools, variables,
                       add_generation_prompt);
  };
  std::string text;
  try {
    text = render(true);
  } catch (const BadRequest&) {
    if (!last) {
      throw;
    }
    return render(false);
  }
  return !last || text.find(trimmed(*last)) != std::string::npos ? text : render(false);
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
    return {render_messages(call, count, tools, variables, begins), false};
  }
  if (count >= 2 && is_assistant(messages[count - 2])) {
    throw BadRequest("'messages' ends with two messages of the assistant", "messages");
  }
  return {(count == 1 ? "" : render_messages(call, count - 1, tools, variables, true)) +
              content_text(messages[count - 1]),
          true};
}

std::vector<int64_t> chat_tokens(const LoadedModel& model, const std::string& prompt) {
  return prompt_tokens(model, prompt, false);
}

}  // namespace heed::serve
