#pragma once

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

namespace heed {

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

}  // namespace heed
