#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/export.h"
#include "heed/text.h"

namespace heed {

/// One message of a conversation.
struct ChatMessage {
  std::string role;                    ///< "system", "user", "assistant", "tool", …
  std::optional<std::string> content;  ///< none: the message has no `content`
  /// Content in parts as a JSON array such as `[{"type": "text", "text": "…"}]`; replaces
  /// `content`.
  std::string content_parts = {};
  std::string name = {};               ///< of the speaker or the tool; empty: none
  std::string tool_calls = {};         ///< of an assistant, as a JSON array; empty: none
  std::string tool_call_id = {};       ///< of the call that a tool answers; empty: none
  std::string reasoning_content = {};  ///< what a reasoning model thought; empty: none
};

/// What is handed to a template besides the messages.
struct ChatOptions {
  /// Ends with the beginning of an answer, so that the model writes the answer.
  bool add_generation_prompt = false;
  std::string tools = {};      ///< JSON array of the tools a model may call; empty: none
  std::string documents = {};  ///< JSON array of documents to answer from; empty: none
  /// JSON object of further variables, such as `{"enable_thinking": false}`. They win over the
  /// special tokens and the fields above.
  std::string variables = {};
  /// For `strftime_now`; none: the clock of the system.
  std::optional<std::chrono::system_clock::time_point> now = {};

  // A template comes with the model and is not trusted. Beyond these limits it is an error.
  uint64_t max_steps = 4'000'000;
  uint64_t max_memory = uint64_t{64} << 20;
  uint64_t max_output = uint64_t{16} << 20;
};

/// A conversation as the text that a model reads.
struct RenderedChat {
  std::string text;
  /// The bytes of `text` inside {% generation %} blocks: what the assistant said.
  std::vector<TextSpan> assistant;
};

struct ChatTemplateImpl;

/// Turns conversations into prompts with a model's own Jinja template, as Hugging Face's
/// transformers renders it. A cheap handle; const use is safe from many threads at once.
///
/// The interpreter knows no files, no network and no environment, and its steps, memory and output
/// are bounded. What a template raises by `raise_exception`, and every other error in it, is an
/// Error of kind data that names the template and the line.
class HEED_API ChatTemplate {
 public:
  /// From a model folder (`chat_template.jinja`, `chat_template.json` or `tokenizer_config.json`),
  /// a .gguf or a file of Jinja. An error where there is none.
  static ChatTemplate load(const std::filesystem::path& path);
  /// The same, and nothing where a folder, .gguf or llama2.c's .bin has no template.
  static std::optional<ChatTemplate> find(const std::filesystem::path& path);
  /// From Jinja. `special_tokens` are variables such as {"bos_token", "<s>"}; `name` stands for
  /// the template in errors.
  static ChatTemplate from_text(
      std::string_view source,
      std::span<const std::pair<std::string, std::string>> special_tokens = {},
      std::string_view name = "chat template");

  std::string render(std::span<const ChatMessage> messages, const ChatOptions& options = {}) const;
  /// The same for messages as a JSON array, in which a message may have any fields.
  std::string render(std::string_view messages_json, const ChatOptions& options = {}) const;
  RenderedChat render_with_spans(std::string_view messages_json,
                                 const ChatOptions& options = {}) const;

  /// The Jinja text that is used where no tools are given.
  const std::string& source() const;
  /// Whether the template reads a variable of this name, such as "tools" or "enable_thinking".
  bool mentions(std::string_view variable) const;

 private:
  explicit ChatTemplate(std::shared_ptr<const ChatTemplateImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const ChatTemplateImpl> impl_;
};

/// The messages as the JSON array that render() takes.
HEED_API std::string to_json(std::span<const ChatMessage> messages);

}  // namespace heed
