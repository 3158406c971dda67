#include "text/added_tokens.h"

#include <cstring>

#include "text/unicode.h"

namespace heed::text {
namespace {

char32_t character_before(std::string_view text, size_t at) {
  size_t begin = at - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) {
    --begin;
  }
  return decode_one(text.data() + begin, text.data() + at).code;
}

char32_t character_at(std::string_view text, size_t at) {
  return decode_one(text.data() + at, text.data() + text.size()).code;
}

size_t strip_back(std::string_view text, size_t from, size_t at) {
  while (at > from && is_space(character_before(text, at))) {
    do {
      --at;
    } while (at > from && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  }
  return at;
}

size_t strip_forward(std::string_view text, size_t at) {
  while (at < text.size()) {
    const CodePoint one = decode_one(text.data() + at, text.data() + text.size());
    if (!is_space(one.code)) {
      break;
    }
    at += one.length;
  }
  return at;
}

}  // namespace

void AddedTokenFinder::add(const AddedToken& token, std::string_view key) {
  if (key.empty()) {
    return;
  }
  trie_.insert(key, static_cast<int32_t>(tokens_.size()));
  tokens_.push_back({token.id, token.single_word, token.left_strip, token.right_strip});
  const auto first = static_cast<unsigned char>(key[0]);
  if (!starts_[first]) {
    starts_[first] = true;
    start_bytes_ += key[0];
  }
}

bool AddedTokenFinder::next(std::string_view text, size_t from, Found& found) const {
  for (size_t at = from; at < text.size(); ++at) {
    if (start_bytes_.size() == 1) {
      const void* hit = std::memchr(text.data() + at, start_bytes_[0], text.size() - at);
      if (hit == nullptr) {
        return false;
      }
      at = static_cast<size_t>(static_cast<const char*>(hit) - text.data());
    } else if (!starts_[static_cast<unsigned char>(text[at])]) {
      continue;
    }
    const Trie::Match match = trie_.longest(text.substr(at));
    if (match.length == 0) {
      continue;
    }
    const Rule& rule = tokens_[static_cast<size_t>(match.value)];
    size_t end = at + match.length;
    if (rule.single_word && ((at > 0 && is_word(character_before(text, at))) ||
                             (end < text.size() && is_word(character_at(text, end))))) {
      at = end - 1;
      continue;
    }
    found = {rule.left_strip ? strip_back(text, from, at) : at,
             rule.right_strip ? strip_forward(text, end) : end, rule.id};
    return true;
  }
  return false;
}

}  // namespace heed::text
