#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/unicode.h"

namespace heed::text {

/// GPT-2's pattern, as tokenizer.json files write it.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace detail {
inline constexpr uint8_t kWide = 4;  ///< not ASCII
constexpr std::array<uint8_t, 256> make_class_table() {
  std::array<uint8_t, 256> table{};
  for (int c = 0; c < 256; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool digit = c >= '0' && c <= '9';
    const bool space = c == ' ' || (c >= 9 && c <= 13);
    table[static_cast<size_t>(c)] = c >= 0x80 ? kWide
                                              : static_cast<uint8_t>(letter  ? CharClass::letter
                                                                     : digit ? CharClass::number
                                                                     : space ? CharClass::space
                                                                             : CharClass::other);
  }
  return table;
}
inline constexpr std::array<uint8_t, 256> kClassTable = make_class_table();

}  // namespace detail

/// Cuts text as GPT-2's pattern does, without a regex engine. Every byte falls into a word; bytes
/// that are not UTF-8 count as symbols.
class Gpt2Splitter {
 public:
  explicit Gpt2Splitter(std::string_view text) : next_(text.data()), end_(next_ + text.size()) {}

  /// Finds the next word; false at the end.
  bool next(std::string_view& word) {
    if (next_ == end_) {
      return false;
    }
    const char* start = next_;
    next_ = word_end(start);
    word = {start, static_cast<size_t>(next_ - start)};
    return true;
  }

 private:
  static uint8_t table_at(const char* p) {
    return detail::kClassTable[static_cast<unsigned char>(*p)];
  }

  /// Class of the character at p, and its length.
  CharClass class_at(const char* p, uint32_t& length) const {
    const uint8_t quick = table_at(p);
    if (quick != detail::kWide) {
      length = 1;
      return static_cast<CharClass>(quick);
    }
    const CodePoint one = decode_one(p, end_);
    length = one.length;
    return one.valid ? classes_(one.code) : CharClass::other;
  }

  /// End of the run of one class that begins at p.
  const char* run_end(const char* p, CharClass kind) const {
    while (p < end_) {
      const uint8_t quick = table_at(p);
      if (quick == static_cast<uint8_t>(kind)) {
        ++p;
        continue;
      }
      uint32_t length = 0;
      if (quick != detail::kWide || class_at(p, length) != kind) {
        break;
      }
      p += length;
    }
    return p;
  }

  /// Bytes of 's 't 'm 'd 're 've 'll at p, or 0.
  uint32_t contraction(const char* p) const {
    const auto left = end_ - p;
    if (left < 2) {
      return 0;
    }
    const char a = p[1];
    if (a == 's' || a == 't' || a == 'm' || a == 'd') {
      return 2;
    }
    const char b = left > 2 ? p[2] : '\0';
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
  }

  const char* word_end(const char* start) const {
    if (*start == '\'') {
      if (const uint32_t length = contraction(start)) {
        return start + length;
      }
    }
    const char* p = start;
    if (*p == ' ' && p + 1 < end_) {
      ++p;
    }
    uint32_t length = 0;
    const CharClass kind = class_at(p, length);
    if (kind != CharClass::space) {
      return run_end(p + length, kind);
    }
    // Whitespace keeps its last character for the word that follows, unless it is the only one.
    const char* end = run_end(start, CharClass::space);
    if (end == end_) {
      return end;
    }
    const char* last = end - 1;
    while (last > start && (static_cast<unsigned char>(*last) & 0xC0) == 0x80) {
      --last;
    }
    return last > start ? last : end;
  }

  const char* next_;
  const char* end_;
  CharClasses classes_;
};

}  // namespace heed::text
