#include "text/bpe.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"
#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/merge_agenda.h"
#include "text/pair_table.h"
#include "text/unicode.h"

namespace heed::text {
namespace {

constexpr size_t kShort = 40;  ///< symbols up to which a plain scan beats the agenda
constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();

struct BpeScratch final : ModelScratch {
  std::vector<Symbol> symbols;
  MergeAgenda agenda;
};

/// Merges in place; n is small, so the lowest rank is found by looking at all.
size_t merge_short(Symbol* symbols, size_t n, const PairTable& pairs) {
  std::array<uint32_t, kShort> ranks;
  std::array<int32_t, kShort> results;
  const auto look = [&](size_t i) {
    const auto* found = pairs.find(symbols[i].id, symbols[i + 1].id);
    ranks[i] = found != nullptr ? found->rank : kNoRank;
    results[i] = found != nullptr ? found->result : 0;
  };
  for (size_t i = 0; i + 1 < n; ++i) {
    look(i);
  }
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      best = ranks[i] < ranks[best] ? i : best;
    }
    if (ranks[best] == kNoRank) {
      break;
    }
    symbols[best] = {results[best], symbols[best].length + symbols[best + 1].length};
    for (size_t i = best + 1; i + 1 < n; ++i) {
      symbols[i] = symbols[i + 1];
      ranks[i] = ranks[i + 1];
      results[i] = results[i + 1];
    }
    --n;
    if (best + 1 < n) {
      look(best);
    } else {
      ranks[best] = kNoRank;
    }
    if (best > 0) {
      look(best - 1);
    }
  }
  return n;
}

class Bpe final : public Model {
 public:
  Bpe(Vocabulary vocabulary, const std::vector<Merge>& merges, BpeOptions options)
      : options_(std::move(options)), pairs_(merges.size()) {
    vocabulary_ = std::move(vocabulary);
    for (const Merge& merge : merges) {
      pairs_.insert(merge.left, merge.right, merge.rank, merge.result);
    }
    for (int byte = 0; byte < 256; ++byte) {
      const auto id = vocabulary_.find(byte_to_text(static_cast<unsigned char>(byte)));
      bytes_[static_cast<size_t>(byte)] = id.value_or(options_.unk.value_or(-1));
    }
    if (options_.byte_fallback) {
      fallback_ = byte_tokens(vocabulary_);
    }
    if (!options_.raw_bytes) {
      index_characters();
      find_border(merges);
    }
  }

  std::string_view border() const override { return border_; }
  bool joins_border(char before) const override {
    return joins_border_[static_cast<unsigned char>(before)];
  }

  std::unique_ptr<ModelScratch> make_scratch() const override {
    return std::make_unique<BpeScratch>();
  }

  void tokenize(std::string_view piece, ModelScratch* scratch,
                std::vector<ModelToken>& out) const override {
    auto& memory = *static_cast<BpeScratch*>(scratch);
    if (options_.ignore_merges && emit_whole(piece, out)) {
      return;
    }
    memory.symbols.clear();
    if (options_.raw_bytes) {
      for (const char c : piece) {
        memory.symbols.push_back({bytes_[static_cast<unsigned char>(c)], 1});
      }
    } else {
      split_characters(piece, memory.symbols);
    }
    uint32_t at = drop_nameless(memory.symbols);
    if (memory.symbols.size() <= kShort) {
      memory.symbols.resize(merge_short(memory.symbols.data(), memory.symbols.size(), pairs_));
    } else {
      memory.agenda.merge(memory.symbols, pairs_);
    }
    for (const Symbol& symbol : memory.symbols) {
      out.push_back({symbol.id, at, at + symbol.length});
      at += symbol.length;
    }
  }

 private:
  /// Ids of single characters of the basic plane, -1 where there is none.
  void index_characters() {
    characters_.assign(0x10000, -1);
    for (const auto& [token, id] : vocabulary_.ids()) {
      if (token.empty()) {
        continue;
      }
      const CodePoint one = decode_one(token.data(), token.data() + token.size());
      if (one.length == token.size() && one.valid && one.code < characters_.size()) {
        characters_[one.code] = id;
      }
    }
  }

  /// SentencePiece's tokens have ▁ only at their start, so that words never merge with each other,
  /// but for a few such as Gemma's ">▁</": only what ends in the byte before that ▁ may merge.
  void find_border(const std::vector<Merge>& merges) {
    constexpr std::string_view kSpace = "\xE2\x96\x81";
    if (!vocabulary_.find(kSpace) || options_.ignore_merges || !options_.prefix.empty() ||
        !options_.suffix.empty()) {
      return;
    }
    border_ = kSpace;
    for (const Merge& merge : merges) {
      const std::string_view token = vocabulary_.token(merge.result);
      size_t start = 0;
      for (size_t at = token.find(kSpace); at != std::string_view::npos;
           at = token.find(kSpace, start)) {
        if (at > start) {
          joins_border_[static_cast<unsigned char>(token[at - 1])] = true;
        }
        start = at + kSpace.size();
      }
    }
  }

  bool emit_whole(std::string_view piece, std::vector<ModelToken>& out) const {
    std::string written;
    if (options_.raw_bytes) {
      for (const char c : piece) {
        written += byte_to_text(static_cast<unsigned char>(c));
      }
    }
    const auto id = vocabulary_.find(options_.raw_bytes ? std::string_view(written) : piece);
    if (id) {
      out.push_back({*id, 0, static_cast<uint32_t>(piece.size())});
    }
    return id.has_value();
  }

  /// Characters that have no token at all (and there is no unknown token) vanish; their bytes go to
  /// the token before. Gives the bytes that vanish at the front.
  static uint32_t drop_nameless(std::vector<Symbol>& symbols) {
    uint32_t front = 0;
    size_t kept = 0;
    for (const Symbol& symbol : symbols) {
      if (symbol.id >= 0) {
        symbols[kept++] = symbol;
      } else {
        (kept > 0 ? symbols[kept - 1].length : front) += symbol.length;
      }
    }
    symbols.resize(kept);
    return front;
  }

  std::optional<int32_t> character_id(std::string_view character, char32_t code, bool first,
                                      bool last) const {
    const bool prefixed = !first && !options_.prefix.empty();
    if (!prefixed && (!last || options_.suffix.empty())) {
      if (code < characters_.size()) {
        const int32_t id = characters_[code];
        return id >= 0 ? std::optional(id) : std::nullopt;
      }
      return vocabulary_.find(character);
    }
    std::string whole = prefixed ? options_.prefix : std::string();
    whole += character;
    whole += last ? options_.suffix : std::string();
    return vocabulary_.find(whole);
  }

  bool fall_back(std::string_view character, std::vector<Symbol>& symbols) const {
    if (!options_.byte_fallback || !std::all_of(character.begin(), character.end(), [&](char c) {
          return fallback_[static_cast<unsigned char>(c)] >= 0;
        })) {
      return false;
    }
    for (const char c : character) {
      symbols.push_back({fallback_[static_cast<unsigned char>(c)], 1});
    }
    return true;
  }

  void split_characters(std::string_view piece, std::vector<Symbol>& symbols) const {
    bool after_unk = false;
    for (size_t i = 0; i < piece.size();) {
      const CodePoint one = decode_one(piece.data() + i, piece.data() + piece.size());
      const std::string_view character = piece.substr(i, one.length);
      const auto id = character_id(character, one.code, i == 0, i + one.length == piece.size());
      bool unk = false;
      if (id) {
        symbols.push_back({*id, one.length});
      } else if (!fall_back(character, symbols)) {
        unk = true;
        if (after_unk && options_.fuse_unk) {
          symbols.back().length += one.length;
        } else {
          symbols.push_back({options_.unk.value_or(-1), one.length});
        }
      }
      after_unk = unk;
      i += one.length;
    }
  }

  BpeOptions options_;
  PairTable pairs_;
  std::array<int32_t, 256> bytes_;
  std::vector<int32_t> fallback_;
  std::vector<int32_t> characters_;
  std::string_view border_;
  std::array<bool, 256> joins_border_ = {};
};

/// "a b" or ["a", "b"].
std::pair<std::string, std::string> merge_parts(const Json& merge) {
  if (merge.is_array()) {
    if (merge.size() != 2) {
      merge.refuse("is not a pair of tokens");
    }
    return {merge[0].string(), merge[1].string()};
  }
  const std::string& text = merge.string_ref();
  const size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
    merge.refuse("is not two tokens with a space between");
  }
  return {text.substr(0, space), text.substr(space + 1)};
}

std::vector<Merge> read_merges(const Json& json, const Vocabulary& vocabulary,
                               const std::string& prefix) {
  std::vector<Merge> merges;
  for (const Json& merge : json.at("merges").elements()) {
    const auto [left, right] = merge_parts(merge);
    const auto find = [&](const std::string& token) {
      const auto id = vocabulary.find(token);
      if (!id) {
        merge.refuse(
            fmt::format("needs the token {}, which is not in the vocabulary", quote(token)));
      }
      return *id;
    };
    const bool cut = !prefix.empty() && right.starts_with(prefix);
    const int32_t a = find(left);
    const int32_t b = find(right);
    merges.push_back({a, b, find(left + (cut ? right.substr(prefix.size()) : right)),
                      static_cast<uint32_t>(merges.size())});
  }
  return merges;
}

}  // namespace

std::unique_ptr<Model> make_bpe(Vocabulary vocabulary, const std::vector<Merge>& merges,
                                BpeOptions options) {
  return std::make_unique<Bpe>(std::move(vocabulary), merges, std::move(options));
}

namespace {

BpeOptions read_options(const Json& json, const Vocabulary& vocabulary, bool raw_bytes) {
  BpeOptions options;
  options.raw_bytes = raw_bytes;
  options.byte_fallback = json.boolean_or("byte_fallback", false);
  options.fuse_unk = json.boolean_or("fuse_unk", false);
  options.ignore_merges = json.boolean_or("ignore_merges", false);
  options.prefix = json.string_or("continuing_subword_prefix", "");
  options.suffix = json.string_or("end_of_word_suffix", "");
  if (json.has("unk_token")) {
    options.unk = vocabulary.find(json.string("unk_token"));
  }
  return options;
}

}  // namespace

std::unique_ptr<Model> make_bpe(const Json& json, bool raw_bytes) {
  Vocabulary vocabulary = Vocabulary::from_json(json.at("vocab"));
  BpeOptions options = read_options(json, vocabulary, raw_bytes);
  const std::vector<Merge> merges = read_merges(json, vocabulary, options.prefix);
  return make_bpe(std::move(vocabulary), merges, std::move(options));
}

std::unique_ptr<Model> make_bpe(SplitJson& split, bool raw_bytes) {
  std::optional<Vocabulary> vocabulary = Vocabulary::from_members(std::move(split.vocabulary));
  if (!vocabulary) {
    return nullptr;
  }
  BpeOptions options = read_options(split.rest.at("model"), *vocabulary, raw_bytes);
  std::vector<Merge> merges;
  merges.reserve(split.merges.size());
  std::string both;
  for (const auto& [left, right] : split.merges) {
    const bool cut = !options.prefix.empty() && right.starts_with(options.prefix);
    both.assign(left).append(right, cut ? options.prefix.size() : 0);
    const auto a = vocabulary->find(left);
    const auto b = vocabulary->find(right);
    const auto result = vocabulary->find(both);
    if (!a || !b || !result) {
      return nullptr;
    }
    merges.push_back({*a, *b, *result, static_cast<uint32_t>(merges.size())});
  }
  return make_bpe(std::move(*vocabulary), merges, std::move(options));
}

std::vector<Merge> merges_by_score(const Vocabulary& vocabulary, const std::vector<float>& scores,
                                   const std::vector<bool>& usable) {
  std::vector<int32_t> order;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (usable[static_cast<size_t>(id)] && vocabulary.find(vocabulary.token(id)) == id) {
      order.push_back(id);
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  std::vector<Merge> merges;
  uint32_t rank = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const int32_t id = order[i];
    if (i > 0 && scores[static_cast<size_t>(id)] < scores[static_cast<size_t>(order[i - 1])]) {
      ++rank;  // equal scores share a rank: the leftmost goes first
    }
    const std::string_view token = vocabulary.token(id);
    for (size_t cut = 1; cut < token.size(); ++cut) {
      if ((static_cast<unsigned char>(token[cut]) & 0xC0) == 0x80) {
        continue;
      }
      const auto left = vocabulary.find(token.substr(0, cut));
      const auto right = vocabulary.find(token.substr(cut));
      if (left && right && usable[static_cast<size_t>(*left)] &&
          usable[static_cast<size_t>(*right)]) {
        merges.push_back({*left, *right, id, rank});
      }
    }
  }
  return merges;
}

}  // namespace heed::text
