#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heed/chat.h"
#include "heed/pipelines.h"

namespace heed {

/// A conversation with a model: messages, answers, and the keys and values of what was said, so
/// that a new message costs only its own tokens.
class HEED_API ChatSession {
 public:
  /// Uses the template of the model's file or folder; an error where it has none and
  /// `chat_template` (a file of Jinja) is empty.
  explicit ChatSession(LoadedModel model, const std::filesystem::path& chat_template = {});
  ~ChatSession();
  ChatSession(ChatSession&&) noexcept;
  ChatSession& operator=(ChatSession&&) noexcept;

  /// Replaces the system message; empty: none. Takes effect with the next answer.
  void set_system(std::string text);
  const std::string& system() const;
  /// Forgets the conversation, not the system message.
  void reset();
  const std::vector<ChatMessage>& messages() const;  ///< without the system message
  /// The whole conversation as a JSON array of messages.
  std::string to_json() const;

  /// Adds the user's message and generates the answer, which is added, too. Where
  /// `options.run.stop` ends it, what was written so far is the answer. Where an error is thrown,
  /// such as for a conversation longer than the model's context, nothing is added.
  GeneratedText ask(std::string_view text, const GenerationOptions& options = {},
                    const TextGeneration::OnText& on_text = nullptr);

  /// Reads keys and values of an earlier conversation from a file, and writes those of this one.
  /// Throws `Error` for the file of another model.
  void load_cache(const std::filesystem::path& file);
  void save_cache(const std::filesystem::path& file) const;

  int64_t prompt_tokens() const;  ///< of the last question, the conversation before it included
  int64_t reused_tokens() const;  ///< of those, how many were not read again
  const LoadedModel& loaded() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The tokens of a conversation, with the beginning of an answer behind it.
HEED_API std::vector<TokenId> chat_tokens(const Tokenizer& tokenizer, const ChatTemplate& tmpl,
                                          std::span<const ChatMessage> messages,
                                          const ChatOptions& options = {});

}  // namespace heed
