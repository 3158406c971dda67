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

#include "heed/runtime.h"

namespace heed {

// Tokenizers --------------------------------------------------------------------------------------

/// The id of a token, everywhere: tokenizers, generation and tensors of ids (DType::i64).
using TokenId = int64_t;

/// Where a token came from: bytes [begin, end) of the text that was encoded. Special tokens that
/// were added have {0, 0}.
struct TextSpan {
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const TextSpan&) const = default;
};

/// A text as tokens. All vectors have the same length.
struct Encoding {
  std::vector<TokenId> ids;
  std::vector<std::string> tokens;
  std::vector<TextSpan> offsets;
  std::vector<int64_t> type_ids;             ///< 0 first text, 1 second text of a pair
  std::vector<int64_t> attention_mask;       ///< 1 token, 0 padding
  std::vector<int64_t> special_tokens_mask;  ///< 1 added by the tokenizer, 0 from the text
};

enum class Side { left, right };

/// How texts that are too long are cut.
struct Truncation {
  enum class Strategy { longest_first, only_first, only_second };
  int64_t max_length = 512;  ///< tokens, the special ones included
  Strategy strategy = Strategy::longest_first;
  Side side = Side::right;  ///< the side that loses tokens
};

/// How short texts of a batch are filled.
struct Padding {
  std::optional<int64_t> length;  ///< a fixed length; none: the longest of the batch
  int64_t multiple_of = 1;
  Side side = Side::right;  ///< the side that gains tokens
  TokenId id = 0;
  int64_t type_id = 0;
  std::string token = "[PAD]";
};

/// The ids of tokens with a part to play, where the tokenizer has them.
struct SpecialTokens {
  std::optional<TokenId> bos, eos, pad, unk, mask, cls, sep;
};

struct TokenizerImpl;

/// Turns text into ids and back. A cheap handle; const use is safe from many threads at once.
///
/// Text is bytes. A byte-level tokenizer gives every byte back, valid UTF-8 or not; the others read
/// an invalid byte as U+FFFD.
class HEED_API Tokenizer {
 public:
  Tokenizer() = default;
  explicit Tokenizer(std::shared_ptr<const TokenizerImpl> impl) : impl_(std::move(impl)) {}

  /// From a model folder, or from tokenizer.json, vocab.json (merges beside it), vocab.txt,
  /// a SentencePiece .model, a .gguf or llama2.c's tokenizer .bin.
  static Tokenizer load(const std::filesystem::path& path);
  /// From the text of a tokenizer.json; `name` stands for the file in errors.
  static Tokenizer from_json(std::string_view json, std::string_view name = "tokenizer.json");

  /// `add_special`: with the special tokens that a model expects around a text, such as [CLS] and
  /// [SEP].
  Encoding encode(std::string_view text, bool add_special = true) const;
  Encoding encode_pair(std::string_view first, std::string_view second,
                       bool add_special = true) const;
  /// Only the ids: many times quicker than encode().
  std::vector<TokenId> encode_ids(std::string_view text, bool add_special = true) const;
  /// Appends the ids of `text`, without special tokens around it.
  void append_ids(std::string_view text, std::vector<TokenId>& ids) const;

  struct BatchOptions {
    bool add_special = true;
    std::optional<Truncation> truncation;
    std::optional<Padding> padding;
  };
  /// In parallel; the result does not depend on the number of threads.
  std::vector<Encoding> encode_batch(std::span<const std::string> texts,
                                     const BatchOptions& options) const;
  std::vector<Encoding> encode_batch(std::span<const std::pair<std::string, std::string>> pairs,
                                     const BatchOptions& options) const;

  /// `skip_special`: leaves out special tokens. An id outside the vocabulary is an error.
  std::string decode(std::span<const TokenId> ids, bool skip_special = true) const;

  /// One more than the largest id: the rows an embedding needs.
  int64_t vocab_size() const;
  std::optional<TokenId> token_to_id(std::string_view token) const;
  /// Empty for an id that no token has.
  std::string id_to_token(TokenId id) const;
  bool is_special(TokenId id) const;
  const SpecialTokens& special() const;
  /// What the tokenizer's file asks for; applied by encode_batch() only where it is handed in.
  const std::optional<Truncation>& truncation() const;
  const std::optional<Padding>& padding() const;

  /// Writes a tokenizer.json that Hugging Face opens, and tokenizer_config.json beside it.
  /// `path` is a folder or the tokenizer.json itself.
  void save(const std::filesystem::path& path) const;

  explicit operator bool() const { return impl_ != nullptr; }
  const TokenizerImpl& impl() const;

 private:
  std::shared_ptr<const TokenizerImpl> impl_;
};

/// Decodes ids one at a time. What push() and finish() give adds up to decode() of all ids; a
/// character that is not complete yet is held back, so no syllable is ever shown broken.
class HEED_API StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool skip_special = true);
  std::string push(TokenId id);
  std::string finish();

 private:
  std::string take(bool all);

  Tokenizer tokenizer_;
  bool skip_special_;
  std::vector<TokenId> window_;  ///< the last ids, enough to decode the next one in context
  size_t emitted_ = 0;           ///< bytes of the window's text that were given out
};

enum class TokenizerKind { byte_bpe, wordpiece, unigram, character };

struct TokenizerTraining {
  TokenizerKind kind = TokenizerKind::byte_bpe;
  int64_t vocab_size = 8192;  ///< special tokens and alphabet included; not used for character
  int64_t min_frequency = 2;
  bool lowercase = false;  ///< WordPiece: as BERT uncased
  /// First in the vocabulary, in this order. Empty: the usual ones of the kind.
  std::vector<std::string> special_tokens;
};

/// "char", "bpe:8192", "wordpiece:N", "unigram:N"; an error for anything else.
HEED_API TokenizerTraining parse_tokenizer_kind(std::string_view text);

/// Trains on texts. The same texts give the same tokenizer, whatever the number of threads.
HEED_API Tokenizer train_tokenizer(std::span<const std::string_view> texts,
                                   const TokenizerTraining& options);
/// The same on text files and on all regular files of folders, in order of their names.
HEED_API Tokenizer train_tokenizer(std::span<const std::filesystem::path> files,
                                   const TokenizerTraining& options);

// Chat templates ----------------------------------------------------------------------------------

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
