#include <algorithm>

#include "base/check.h"
#include "base/parallel.h"
#include "heed/text.h"
#include "text/tokenizer_impl.h"
#include "text/unicode.h"

namespace heed {
namespace {

constexpr int64_t kTextsATile = 16;

/// The length texts of a batch are filled to.
int64_t padded_length(const std::vector<Encoding>& batch, const Padding& options) {
  int64_t length = options.length.value_or(0);
  if (!options.length) {
    for (const Encoding& one : batch) {
      length = std::max(length, static_cast<int64_t>(one.ids.size()));
    }
  }
  check(options.multiple_of >= 1, "tokenize", "padding to a multiple of {} makes no sense",
        options.multiple_of);
  return (length + options.multiple_of - 1) / options.multiple_of * options.multiple_of;
}

/// Encodes item i as one or two bare texts, then does all that a batch asks for.
template <class Encode>
std::vector<Encoding> encode_all(const TokenizerImpl& impl, size_t count,
                                 const Tokenizer::BatchOptions& options, Encode&& encode) {
  std::vector<Encoding> batch(count);
  parallel_ranges(static_cast<int64_t>(count), kTextsATile, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      auto [first, second] = encode(static_cast<size_t>(i));
      if (options.truncation) {
        const bool pair = second.has_value();
        const int64_t special = options.add_special ? impl.post.count_special(pair) : 0;
        text::truncate(first, pair ? &*second : nullptr, special, *options.truncation);
      }
      batch[static_cast<size_t>(i)] =
          impl.wrap(std::move(first), std::move(second), options.add_special);
    }
  });
  if (options.padding) {
    const int64_t length = padded_length(batch, *options.padding);
    for (Encoding& one : batch) {
      text::pad(one, length, *options.padding);
    }
  }
  return batch;
}

using Bare = std::pair<Encoding, std::optional<Encoding>>;

/// How many of the `size` bytes that `ids` decode to can no longer change. A run of byte tokens
/// such as <0xE1> at the end may still become U+FFFD, as it does where it is not UTF-8 as a whole.
size_t settled_bytes(const Tokenizer& tokenizer, std::span<const TokenId> ids, size_t size) {
  size_t count = ids.size();
  while (count > 0 && text::byte_token_value(tokenizer.id_to_token(ids[count - 1])) >= 0) {
    --count;
  }
  return count == ids.size() ? size
                             : std::min(size, tokenizer.decode(ids.first(count), false).size());
}

}  // namespace

const TokenizerImpl& Tokenizer::impl() const {
  check(impl_ != nullptr, "tokenizer", "none is loaded");
  return *impl_;
}

Tokenizer Tokenizer::from_json(std::string_view json, std::string_view name) {
  return Tokenizer(text::build(std::string(json), std::string(name)));
}

Encoding Tokenizer::encode(std::string_view text, bool add_special) const {
  return impl().wrap(impl().encode_bare(text, 0), std::nullopt, add_special);
}

Encoding Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                bool add_special) const {
  return impl().wrap(impl().encode_bare(first, 0), impl().encode_bare(second, 1), add_special);
}

std::vector<TokenId> Tokenizer::encode_ids(std::string_view text, bool add_special) const {
  std::vector<TokenId> ids;
  std::vector<TokenId> after;
  if (add_special) {
    impl().post.special_around(ids, after);
  }
  append_ids(text, ids);
  ids.insert(ids.end(), after.begin(), after.end());
  return ids;
}

void Tokenizer::append_ids(std::string_view text, std::vector<TokenId>& ids) const {
  impl().tokenize(text, {ids, nullptr});
}

std::vector<Encoding> Tokenizer::encode_batch(std::span<const std::string> texts,
                                              const BatchOptions& options) const {
  return encode_all(impl(), texts.size(), options,
                    [&](size_t i) { return Bare(impl().encode_bare(texts[i], 0), std::nullopt); });
}

std::vector<Encoding> Tokenizer::encode_batch(
    std::span<const std::pair<std::string, std::string>> pairs, const BatchOptions& options) const {
  return encode_all(impl(), pairs.size(), options, [&](size_t i) {
    return Bare(impl().encode_bare(pairs[i].first, 0), impl().encode_bare(pairs[i].second, 1));
  });
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  const TokenizerImpl& the = impl();
  std::vector<TokenId> kept;
  for (const TokenId id : ids) {
    check_data(id >= 0 && id < the.vocab_size, the.file,
               "id {} is outside the vocabulary of {} tokens", id, the.vocab_size);
    if (!skip_special || !the.is_special(id)) {
      kept.push_back(id);
    }
  }
  if (the.foreign != nullptr) {
    return the.foreign->decode(kept);
  }
  std::vector<std::string> tokens;
  for (const TokenId id : kept) {
    std::string token = the.token(id);
    if (!token.empty()) {
      tokens.push_back(std::move(token));
    }
  }
  if (the.decoder != nullptr) {
    the.decoder->apply(tokens);
  }
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    text += i > 0 && the.decoder == nullptr ? " " : "";
    text += tokens[i];
  }
  return text;
}

int64_t Tokenizer::vocab_size() const { return impl().vocab_size; }

std::optional<TokenId> Tokenizer::token_to_id(std::string_view token) const {
  return impl().id_of(token);
}

std::string Tokenizer::id_to_token(TokenId id) const { return impl().token(id); }

bool Tokenizer::is_special(TokenId id) const { return impl().is_special(id); }

const SpecialTokens& Tokenizer::special() const { return impl().special; }

const std::optional<Truncation>& Tokenizer::truncation() const { return impl().truncation; }

const std::optional<Padding>& Tokenizer::padding() const { return impl().padding; }

StreamDecoder::StreamDecoder(Tokenizer tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

std::string StreamDecoder::push(TokenId id) {
  if (skip_special_ && tokenizer_.is_special(id)) {
    return {};
  }
  window_.push_back(id);
  return take(false);
}

std::string StreamDecoder::finish() {
  std::string rest = take(true);
  window_.clear();
  emitted_ = 0;
  return rest;
}

std::string StreamDecoder::take(bool all) {
  constexpr size_t kWindow = 16;
  const std::string text = tokenizer_.decode(window_, false);
  size_t end = text.size();
  if (!all) {
    end = settled_bytes(tokenizer_, window_, end);
    // A byte that is not UTF-8 yet shows as U+FFFD where the decoder mends text; a character has at
    // most three such bytes before its last.
    for (int i = 0; i < 3 && std::string_view(text).substr(0, end).ends_with(text::kReplacement);
         ++i) {
      end -= text::kReplacement.size();
    }
    end -= text::incomplete_tail(std::string_view(text).substr(0, end));
  }
  std::string out = end > emitted_ ? text.substr(emitted_, end - emitted_) : std::string();
  emitted_ = std::max(emitted_, end);
  if (emitted_ == text.size() && window_.size() > kWindow) {
    window_.erase(window_.begin(), window_.end() - kWindow / 2);
    emitted_ = tokenizer_.decode(window_, false).size();
  }
  return out;
}

}  // namespace heed
