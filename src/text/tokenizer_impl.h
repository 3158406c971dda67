#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "heed/text.h"
#include "io/json.h"
#include "io/json_split.h"
#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/postprocessor.h"
#include "text/pretokenizer.h"
#include "text/token_model.h"
#include "text/word_cache.h"

namespace heed::text {

/// Tokens of a text: ids, and where they came from if anybody wants to know.
struct TokenList {
  std::vector<TokenId>& ids;
  std::vector<TextSpan>* offsets;  ///< may be null
  /// Index and text of each token that its id does not name; may be null.
  std::vector<std::pair<size_t, std::string>>* unknown = nullptr;
};

/// A whole tokenizer that lives in another library, in place of normalizer to model.
class ForeignTokenizer {
 public:
  virtual ~ForeignTokenizer() = default;
  virtual void tokenize(std::string_view text, int64_t base, const TokenList& out) const = 0;
  virtual std::string decode(std::span<const TokenId> ids) const = 0;
};

/// One thread's memory.
struct EncodeBuffers {
  std::unique_ptr<ModelScratch> model;
  WordCache cache;
  std::vector<ModelToken> tokens;
  std::vector<Piece> pieces, cut;
  size_t may_grow_to = 0;  ///< bytes that the rest of the text may have once it is normalized
};

class EncodeBufferPool {
 public:
  std::unique_ptr<EncodeBuffers> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      return std::make_unique<EncodeBuffers>();
    }
    auto scratch = std::move(free_.back());
    free_.pop_back();
    return scratch;
  }
  void give(std::unique_ptr<EncodeBuffers> scratch) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(scratch));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<EncodeBuffers>> free_;
};

}  // namespace heed::text

namespace heed {

struct TokenizerImpl {
  std::string file;
  std::unique_ptr<text::Normalizer> normalizer;
  std::unique_ptr<text::PreTokenizer> pretokenizer;
  text::ByteLevelPlan plan;
  std::unique_ptr<text::Model> model;
  std::unique_ptr<text::ForeignTokenizer> foreign;
  text::PostProcessor post;
  std::unique_ptr<text::Decoder> decoder;

  std::vector<text::AddedToken> added;
  std::unordered_map<TokenId, size_t> added_by_id;
  std::unordered_map<std::string, int32_t> added_by_content;
  text::AddedTokenFinder in_original, in_normalized;

  SpecialTokens special;
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;
  int64_t vocab_size = 0;
  std::function<std::string()> document;  ///< writes it as tokenizer.json
  /// What is saved instead, by name, where no tokenizer.json can say it all.
  std::vector<std::pair<std::string, std::string>> files;
  std::optional<Json> config;  ///< as tokenizer_config.json

  mutable text::EncodeBufferPool pool;

  /// Appends the tokens of a text, without special tokens around it.
  void tokenize(std::string_view text, const text::TokenList& out) const;
  Encoding wrap(Encoding first, std::optional<Encoding> second, bool add_special) const;
  Encoding encode_bare(std::string_view text, int64_t type_id) const;
  std::string token(TokenId id) const;
  std::optional<TokenId> id_of(std::string_view token) const;
  bool is_special(TokenId id) const;

 private:
  void tokenize_original(std::string_view text, int64_t base, text::EncodeBuffers& scratch,
                         const text::TokenList& out) const;
  void tokenize_normalized(text::AlignedText& whole, text::EncodeBuffers& scratch,
                           const text::TokenList& out) const;
  void tokenize_words(std::string_view text, text::EncodeBuffers& scratch,
                      std::vector<TokenId>& ids) const;
  void append_word(std::string_view word, const char* readable, text::EncodeBuffers& scratch,
                   std::vector<TokenId>& ids) const;
};

}  // namespace heed

namespace heed::text {

struct BuildOptions {
  /// Special tokens written out in a text count as such, as they do for Hugging Face.
  bool special_in_text = true;
  /// In place of the one that the document describes.
  std::unique_ptr<Model> model;
  /// Where the document's vocabulary and merges are, if not in itself.
  SplitJson* split = nullptr;
};

/// Builds a tokenizer from a parsed tokenizer.json; null where `options.split` is in error.
std::shared_ptr<TokenizerImpl> build(const Json& json, BuildOptions options = {});
/// The same from its text, which is quicker.
std::shared_ptr<TokenizerImpl> build(std::string text, const std::string& file);
/// Gives `impl`, whose model is there already, its added tokens, and works out the special ones.
void add_tokens(TokenizerImpl& impl, std::vector<AddedToken> tokens);
/// Takes roles (bos_token, …) and settings from a tokenizer_config.json or special_tokens_map.json.
void apply_config(TokenizerImpl& impl, const Json& config);

}  // namespace heed::text
