#include "text/chat_template.h"

#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"
#include "io/json_writer.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_lexer.h"
#include "text/jinja_parser.h"

namespace heed {
namespace {

using text::jinja::Budget;
using text::jinja::TemplateError;
using text::jinja::Value;

/// An error of a template as one line without control characters.
std::string one_line(const TemplateError& error) {
  const std::string quoted = quote(error.what(), 400);
  return quoted.substr(1, quoted.size() - 2);
}

std::shared_ptr<const ChatTemplateImpl> parse_templates(text::ChatTemplateSource source) {
  auto impl = std::make_shared<ChatTemplateImpl>();
  impl->file = std::move(source.file);
  impl->special_tokens = std::move(source.special_tokens);
  for (auto& [name, jinja] : source.templates) {
    try {
      text::jinja::Block block = text::jinja::parse(jinja);
      impl->templates.push_back({name, std::move(jinja), std::move(block)});
    } catch (const TemplateError& error) {
      fail(ErrorKind::data, impl->file, "chat template{}: {}",
           source.templates.size() > 1 ? " " + quote(name) : "", one_line(error));
    }
  }
  return impl;
}

void define_json(text::jinja::Interpreter& interpreter, Budget& budget, const std::string& name,
                 const std::string& json) {
  interpreter.define(
      name, json.empty() ? Value(text::jinja::None{}) : text::jinja::from_json(budget, json, name));
}

RenderedChat render_template(const ChatTemplateImpl& impl, std::string_view messages,
                             const ChatOptions& options) {
  Budget budget({.steps = options.max_steps,
                 .memory = options.max_memory,
                 .output = options.max_output,
                 .depth = text::jinja::Limits{}.depth});
  text::jinja::Interpreter interpreter(budget,
                                       options.now.value_or(std::chrono::system_clock::now()));
  bool running = false;
  try {
    for (const auto& [name, token] : impl.special_tokens) {
      interpreter.define(name, text::jinja::make_string(budget, token));
    }
    const Value list = text::jinja::from_json(budget, messages, "messages");
    check_data(list.is_list(), "messages", "is not a JSON array");
    interpreter.define("messages", list);
    define_json(interpreter, budget, "tools", options.tools);
    define_json(interpreter, budget, "documents", options.documents);
    interpreter.define("add_generation_prompt", options.add_generation_prompt);
    if (!options.variables.empty()) {
      const Value variables = text::jinja::from_json(budget, options.variables, "variables");
      check_data(variables.is_dict(), "variables", "is not a JSON object");
      for (const auto& [name, value] : variables.dict().items) {
        interpreter.define(name.text(), value);
      }
    }
    running = true;
    RenderedChat chat;
    chat.text = interpreter.run(impl.choose(!options.tools.empty()).block, chat.assistant);
    return chat;
  } catch (const TemplateError& error) {
    if (running) {
      fail(ErrorKind::data, impl.file, "chat template, line {}: {}", interpreter.line(),
           one_line(error));
    }
    fail(ErrorKind::data, impl.file, "chat template: {}", one_line(error));
  }
}

void write_message(JsonWriter& writer, const ChatMessage& message) {
  writer.begin_object().field("role", message.role);
  if (!message.content_parts.empty()) {
    writer.key("content").raw(message.content_parts);
  } else if (message.content) {
    writer.field("content", *message.content);
  }
  const auto text = [&](const char* name, const std::string& value) {
    if (!value.empty()) {
      writer.field(name, value);
    }
  };
  text("reasoning_content", message.reasoning_content);
  text("name", message.name);
  if (!message.tool_calls.empty()) {
    writer.key("tool_calls").raw(message.tool_calls);
  }
  text("tool_call_id", message.tool_call_id);
  writer.end_object();
}

}  // namespace

const ChatTemplateImpl::Named& ChatTemplateImpl::choose(bool with_tools) const {
  const auto named = [&](std::string_view name) {
    return std::find_if(templates.begin(), templates.end(),
                        [&](const Named& each) { return each.name == name; });
  };
  auto found = with_tools ? named("tool_use") : templates.end();
  if (found == templates.end()) {
    found = named("default");
  }
  if (found == templates.end() && templates.size() == 1) {
    found = templates.begin();
  }
  if (found == templates.end()) {
    std::vector<std::string> names;
    for (const Named& each : templates) {
      names.push_back(quote(each.name));
    }
    fail(ErrorKind::data, file, "has no chat template named 'default' (there are {})",
         fmt::join(names, ", "));
  }
  return *found;
}

ChatTemplate ChatTemplate::load(const std::filesystem::path& path) {
  std::optional<ChatTemplate> found = find(path);
  check_data(found.has_value(), path.native(),
             "has no chat template (chat_template.jinja, chat_template in tokenizer_config.json or "
             "tokenizer.chat_template in a GGUF); use an instruct or chat model");
  return *found;
}

std::optional<ChatTemplate> ChatTemplate::find(const std::filesystem::path& path) {
  text::ChatTemplateSource source = text::read_chat_template(path);
  if (source.templates.empty()) {
    return std::nullopt;
  }
  return ChatTemplate(parse_templates(std::move(source)));
}

ChatTemplate ChatTemplate::from_text(
    std::string_view source, std::span<const std::pair<std::string, std::string>> special_tokens,
    std::string_view name) {
  return ChatTemplate(parse_templates({std::string(name),
                                       {{"default", std::string(source)}},
                                       {special_tokens.begin(), special_tokens.end()}}));
}

std::string ChatTemplate::render(std::span<const ChatMessage> messages,
                                 const ChatOptions& options) const {
  return render(to_json(messages), options);
}

std::string ChatTemplate::render(std::string_view messages_json, const ChatOptions& options) const {
  return render_template(*impl_, messages_json, options).text;
}

RenderedChat ChatTemplate::render_with_spans(std::string_view messages_json,
                                             const ChatOptions& options) const {
  return render_template(*impl_, messages_json, options);
}

const std::string& ChatTemplate::source() const { return impl_->choose(false).source; }

bool ChatTemplate::mentions(std::string_view variable) const {
  using text::jinja::Token;
  for (const auto& each : impl_->templates) {
    const std::vector<Token> tokens = text::jinja::tokenize(each.source);
    if (std::any_of(tokens.begin(), tokens.end(), [&](const Token& token) {
          return token.kind == Token::Kind::name && token.text == variable;
        })) {
      return true;
    }
  }
  return false;
}

std::string to_json(std::span<const ChatMessage> messages) {
  JsonWriter writer;
  writer.begin_array();
  for (const ChatMessage& message : messages) {
    write_message(writer, message);
  }
  writer.end_array();
  return writer.take();
}

}  // namespace heed
