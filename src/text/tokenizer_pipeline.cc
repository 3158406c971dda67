#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/longest_line.h"
#include "base/utf8.h"
#include "text/gpt2_split.h"
#include "text/tokenizer_impl.h"
#include "text/unicode.h"

namespace heed {

using text::AddedTokenFinder;
using text::AlignedText;
using text::EncodeBuffers;
using text::Piece;
using text::TokenList;
using text::WordCache;

namespace {

/// Gives scratch memory back to its pool, also when an error flies by.
class Borrowed {
 public:
  explicit Borrowed(const TokenizerImpl& impl) : impl_(impl), scratch_(impl.pool.take()) {
    if (scratch_->model == nullptr && impl.model != nullptr) {
      scratch_->model = impl.model->make_scratch();
    }
  }
  ~Borrowed() {
    try {
      impl_.pool.give(std::move(scratch_));
    } catch (const std::bad_alloc&) {  // without memory to keep it, it is freed
    }
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  EncodeBuffers& operator*() { return *scratch_; }

 private:
  const TokenizerImpl& impl_;
  std::unique_ptr<EncodeBuffers> scratch_;
};

void add_token(TokenId id, TextSpan span, const TokenList& out) {
  out.ids.push_back(id);
  if (out.offsets != nullptr) {
    out.offsets->push_back(span);
  }
}

/// Calls on_text(begin, end) and on_token(found) for a text with added tokens in it, in order.
template <class OnText, class OnToken>
void around_tokens(std::string_view text, const AddedTokenFinder& finder, OnText&& on_text,
                   OnToken&& on_token) {
  size_t done = 0;
  for (AddedTokenFinder::Found found; !finder.empty() && finder.next(text, done, found);) {
    if (found.begin > done) {
      on_text(done, found.begin);
    }
    on_token(found);
    done = found.end;
  }
  if (done < text.size()) {
    on_text(done, text.size());
  }
}

/// Cuts pieces of a text before every border of the model that something else comes before, and
/// appends the parts to `cut`.
void cut_at_borders(std::string_view whole, const text::Model& model,
                    const std::vector<Piece>& pieces, std::vector<Piece>& cut) {
  const std::string_view border = model.border();
  for (const Piece& piece : pieces) {
    const std::string_view text = whole.substr(0, piece.end);
    size_t begin = piece.begin;
    size_t after = piece.begin;  // end of the last border
    for (size_t at = text.find(border, begin); at != std::string_view::npos;
         at = text.find(border, after)) {
      if (at > after && at > begin && !model.joins_border(text[at - 1])) {
        cut.push_back({begin, at});
        begin = at;
      }
      after = at + border.size();
    }
    if (begin < piece.end) {
      cut.push_back({begin, piece.end});
    }
  }
}

/// Whether a byte-level token's character stands for a space (Ġ), or is one itself.
bool stands_for_space(char32_t code) { return code == 0x120 || text::is_space(code); }

bool continues_character(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

/// Leaves the spaces at both ends of a token out of its span, one character of the text per space.
/// A space that was put before the text (`prefixed`) has no character of its own.
void trim_spaces(std::string_view text, std::string_view token, bool prefixed, bool first,
                 TextSpan& span) {
  int64_t leading = 0;
  int64_t trailing = 0;
  bool only_spaces = true;
  for (size_t i = 0; i < token.size();) {
    const text::CodePoint one = text::decode_one(token.data() + i, token.data() + token.size());
    const bool space = stands_for_space(one.code);
    only_spaces = only_spaces && space;
    leading += only_spaces ? 1 : 0;
    trailing = space ? trailing + 1 : 0;
    i += one.length;
  }
  if (leading > 0 && prefixed && (first || span.begin == 0)) {
    --leading;
  }
  const auto inside = [&](int64_t at) {
    return continues_character(text[static_cast<size_t>(at)]);
  };
  for (; leading > 0 && span.begin < span.end; --leading) {
    do {
      ++span.begin;
    } while (span.begin < span.end && inside(span.begin));
  }
  for (; trailing > 0 && span.end > span.begin; --trailing) {
    do {
      --span.end;
    } while (span.end > span.begin && inside(span.end));
  }
}

}  // namespace

void TokenizerImpl::tokenize(std::string_view text, const TokenList& out) const {
  check(text.size() <= kLongestLine, "tokenize",
        "a text of {} bytes is too long (at most {} in one piece); cut it in parts, such as lines",
        text.size(), kLongestLine);
  Borrowed scratch(*this);
  (*scratch).may_grow_to = text::grown_limit(text.size());
  around_tokens(
      text, in_original,
      [&](size_t begin, size_t end) {
        tokenize_original(text.substr(begin, end - begin), static_cast<int64_t>(begin), *scratch,
                          out);
      },
      [&](const AddedTokenFinder::Found& found) {
        add_token(found.id, {static_cast<int64_t>(found.begin), static_cast<int64_t>(found.end)},
                  out);
      });
}

void TokenizerImpl::tokenize_original(std::string_view text, int64_t base, EncodeBuffers& scratch,
                                      const TokenList& out) const {
  if (foreign != nullptr) {
    foreign->tokenize(text, base, out);
    return;
  }
  if (plan.gpt2_only && out.offsets == nullptr && normalizer == nullptr && in_normalized.empty()) {
    if (plan.add_prefix_space && text[0] != ' ') {
      std::string spaced(1, ' ');
      spaced.append(text);
      tokenize_words(spaced, scratch, out.ids);
    } else {
      tokenize_words(text, scratch, out.ids);
    }
    return;
  }
  AlignedText aligned(text, base, out.offsets != nullptr, file, scratch.may_grow_to);
  if (!plan.raw_bytes && !is_valid_utf8(text)) {
    text::sanitize(aligned);
  }
  if (normalizer != nullptr) {
    normalizer->apply(aligned);
  }
  if (in_normalized.empty()) {
    tokenize_normalized(aligned, scratch, out);
    return;
  }
  around_tokens(
      aligned.text(), in_normalized,
      [&](size_t begin, size_t end) {
        AlignedText part(aligned, begin, end, scratch.may_grow_to);
        tokenize_normalized(part, scratch, out);
      },
      [&](const AddedTokenFinder::Found& found) {
        add_token(found.id, aligned.source(found.begin, found.end), out);
      });
}

void TokenizerImpl::tokenize_normalized(AlignedText& whole, EncodeBuffers& scratch,
                                        const TokenList& out) const {
  std::vector<Piece>& pieces = scratch.pieces;
  pieces.assign(1, {0, whole.text().size()});
  if (pretokenizer != nullptr) {
    pretokenizer->apply(whole, pieces);
  }
  scratch.may_grow_to -= std::min(scratch.may_grow_to, whole.text().size());
  if (!model->border().empty()) {
    scratch.cut.clear();
    cut_at_borders(whole.text(), *model, pieces, scratch.cut);
    pieces.swap(scratch.cut);
  }
  const std::string_view view = whole.text();
  for (const Piece& piece : pieces) {
    const std::string_view word = view.substr(piece.begin, piece.end - piece.begin);
    if (out.offsets == nullptr) {
      append_word(word, view.data() + view.size(), scratch, out.ids);
      continue;
    }
    scratch.tokens.clear();
    model->tokenize(word, scratch.model.get(), scratch.tokens);
    for (const text::ModelToken& token : scratch.tokens) {
      if (out.unknown != nullptr && model->is_unknown(token.id)) {
        out.unknown->emplace_back(out.ids.size(),
                                  word.substr(token.begin, token.end - token.begin));
      }
      add_token(token.id, whole.source(piece.begin + token.begin, piece.begin + token.end), out);
    }
  }
}

void TokenizerImpl::tokenize_words(std::string_view text, EncodeBuffers& scratch,
                                   std::vector<TokenId>& ids) const {
  text::Gpt2Splitter words(text);
  for (std::string_view word; words.next(word);) {
    append_word(word, text.data() + text.size(), scratch, ids);
  }
}

void TokenizerImpl::append_word(std::string_view word, const char* readable, EncodeBuffers& scratch,
                                std::vector<TokenId>& ids) const {
  const bool short_word = word.size() <= WordCache::kLongestWord && !word.empty();
  WordCache::Key key;
  if (short_word) {
    key = WordCache::key_of(word, readable);
    const auto known = scratch.cache.find(key);
    if (!known.empty()) {
      ids.insert(ids.end(), known.begin(), known.end());
      return;
    }
  }
  scratch.tokens.clear();
  model->tokenize(word, scratch.model.get(), scratch.tokens);
  const size_t first = ids.size();
  for (const text::ModelToken& token : scratch.tokens) {
    ids.push_back(token.id);
  }
  const std::span<const TokenId> fresh(ids.data() + first, ids.size() - first);
  if (short_word && !fresh.empty() && fresh.size() <= WordCache::kMostIds) {
    scratch.cache.insert(key, fresh);
  }
}

Encoding TokenizerImpl::encode_bare(std::string_view text, int64_t type_id) const {
  Encoding result;
  std::vector<std::pair<size_t, std::string>> unknown;
  tokenize(text, {result.ids, &result.offsets, &unknown});
  const size_t count = result.ids.size();
  result.tokens.reserve(count);
  for (const TokenId id : result.ids) {
    result.tokens.push_back(token(id));
  }
  for (auto& [index, written] : unknown) {
    result.tokens[index] = std::move(written);
  }
  result.type_ids.assign(count, type_id);
  result.attention_mask.assign(count, 1);
  result.special_tokens_mask.assign(count, 0);
  if (post.trim_offsets) {
    for (size_t i = 0; i < count; ++i) {
      trim_spaces(text, result.tokens[i], post.add_prefix_space, i == 0, result.offsets[i]);
    }
  }
  return result;
}

Encoding TokenizerImpl::wrap(Encoding first, std::optional<Encoding> second,
                             bool add_special) const {
  using Kind = text::PostProcessor::Item::Kind;
  Encoding result;
  const auto append = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  for (const auto& item : second ? post.pair : post.single) {
    if (item.kind == Kind::special) {
      for (size_t i = 0; add_special && i < item.ids.size(); ++i) {
        result.ids.push_back(item.ids[i]);
        result.tokens.push_back(token(item.ids[i]));
        result.offsets.push_back({});
        result.type_ids.push_back(item.type_id);
        result.attention_mask.push_back(1);
        result.special_tokens_mask.push_back(1);
      }
      continue;
    }
    if (item.kind == Kind::second && !second) {
      continue;
    }
    Encoding& part = item.kind == Kind::first ? first : *second;
    result.type_ids.insert(result.type_ids.end(), part.ids.size(), item.type_id);
    append(result.ids, part.ids);
    append(result.tokens, part.tokens);
    append(result.offsets, part.offsets);
    append(result.attention_mask, part.attention_mask);
    append(result.special_tokens_mask, part.special_tokens_mask);
  }
  return result;
}

std::string TokenizerImpl::token(TokenId id) const {
  const auto it = added_by_id.find(id);
  if (it != added_by_id.end()) {
    return added[it->second].content;
  }
  if (id < 0 || id >= model->vocabulary().size()) {
    return {};
  }
  return model->vocabulary().token(id);
}

std::optional<TokenId> TokenizerImpl::id_of(std::string_view token) const {
  const auto it = added_by_content.find(std::string(token));
  return it != added_by_content.end() ? std::optional(it->second) : model->vocabulary().find(token);
}

bool TokenizerImpl::is_special(TokenId id) const {
  const auto it = added_by_id.find(id);
  return it != added_by_id.end() && added[it->second].special;
}

}  // namespace heed
