#include "base/check.h"
#include "text/token_model.h"
#include "text/trie.h"
#include "text/unicode.h"

namespace heed::text {
namespace {

/// Longest match first, from left to right; a word that cannot be covered is unknown as a whole.
class WordPiece final : public Model {
 public:
  explicit WordPiece(const Json& json)
      : file_(json.file()),
        longest_(json.integer_or("max_input_chars_per_word", 100, 0, int64_t{1} << 40)) {
    vocabulary_ = Vocabulary::from_json(json.at("vocab"));
    unk_ = vocabulary_.find(json.string_or("unk_token", "[UNK]"));
    const std::string prefix = json.string_or("continuing_subword_prefix", "##");
    for (const auto& [token, id] : vocabulary_.ids()) {
      check_token_length(token, Trie::kLongestKey, file_);
      starts_.insert(token, id);
      if (token.starts_with(prefix)) {
        continuations_.insert(token.substr(prefix.size()), id);
      }
    }
  }

  void tokenize(std::string_view piece, ModelScratch*,
                std::vector<ModelToken>& out) const override {
    const size_t first = out.size();
    if (static_cast<int64_t>(count_characters(piece)) > longest_) {
      add_unknown(piece, out);
      return;
    }
    for (size_t at = 0; at < piece.size();) {
      const Trie::Match match = (at == 0 ? starts_ : continuations_).longest(piece.substr(at));
      if (match.length == 0) {
        out.resize(first);
        add_unknown(piece, out);
        return;
      }
      out.push_back(
          {match.value, static_cast<uint32_t>(at), static_cast<uint32_t>(at + match.length)});
      at += match.length;
    }
  }

 private:
  void add_unknown(std::string_view piece, std::vector<ModelToken>& out) const {
    check_data(unk_.has_value(), file_,
               "the text has a word outside the vocabulary, and there is no unknown token");
    out.push_back({*unk_, 0, static_cast<uint32_t>(piece.size())});
  }

  std::string file_;
  int64_t longest_;
  std::optional<int32_t> unk_;
  Trie starts_, continuations_;
};

class WordLevel final : public Model {
 public:
  explicit WordLevel(const Json& json) : file_(json.file()) {
    vocabulary_ = Vocabulary::from_json(json.at("vocab"));
    unk_ = vocabulary_.find(json.string_or("unk_token", "<unk>"));
  }
  void tokenize(std::string_view piece, ModelScratch*,
                std::vector<ModelToken>& out) const override {
    if (piece.empty()) {
      return;
    }
    const auto id = vocabulary_.find(piece);
    check_data(id || unk_, file_,
               "the text has a word outside the vocabulary, and there is no unknown token");
    out.push_back({id ? *id : *unk_, 0, static_cast<uint32_t>(piece.size())});
  }

 private:
  std::string file_;
  std::optional<int32_t> unk_;
};

}  // namespace

std::unique_ptr<Model> make_wordpiece(const Json& json) {
  return std::make_unique<WordPiece>(json);
}

std::unique_ptr<Model> make_wordlevel(const Json& json) {
  return std::make_unique<WordLevel>(json);
}

}  // namespace heed::text
