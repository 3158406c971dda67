#pragma once

#include <utf8proc.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace heed::text {

struct CodePoint {
  char32_t code;  ///< U+FFFD where the bytes are not UTF-8
  uint32_t length;
  bool valid;
};

/// Reads one code point of UTF-8 at [next, end), which is not empty. An invalid byte stands alone.
inline CodePoint decode_one(const char* next, const char* end) {
  const auto* p = reinterpret_cast<const unsigned char*>(next);
  const size_t left = static_cast<size_t>(end - next);
  const uint32_t a = p[0];
  if (a < 0x80) {
    return {a, 1, true};
  }
  const auto tail = [&](size_t i) { return left > i && (p[i] & 0xC0) == 0x80; };
  if (a >= 0xC2 && a < 0xE0 && tail(1)) {
    return {((a & 0x1F) << 6) | (p[1] & 0x3Fu), 2, true};
  }
  if (a >= 0xE0 && a < 0xF0 && tail(1) && tail(2)) {
    const uint32_t code = ((a & 0x0F) << 12) | ((p[1] & 0x3Fu) << 6) | (p[2] & 0x3Fu);
    if (code >= 0x800 && (code < 0xD800 || code > 0xDFFF)) {
      return {code, 3, true};
    }
  }
  if (a >= 0xF0 && a < 0xF5 && tail(1) && tail(2) && tail(3)) {
    const uint32_t code =
        ((a & 0x07) << 18) | ((p[1] & 0x3Fu) << 12) | ((p[2] & 0x3Fu) << 6) | (p[3] & 0x3Fu);
    if (code >= 0x10000 && code <= 0x10FFFF) {
      return {code, 4, true};
    }
  }
  return {0xFFFD, 1, false};
}

inline void append_code(std::string& out, char32_t code) {
  utf8proc_uint8_t buffer[4];
  const auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), buffer);
  out.append(reinterpret_cast<const char*>(buffer), static_cast<size_t>(n));
}

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// The four classes of code points that GPT-2's pattern tells apart.
enum class CharClass : uint8_t { other, letter, number, space };
/// Looks classes up; make one outside a loop.
class CharClasses {
 public:
  CharClasses();
  CharClass operator()(char32_t code) const {
    return code < 0x10000 ? plane_[code] : beyond_plane(code);
  }

 private:
  static CharClass beyond_plane(char32_t code);
  const CharClass* plane_;
};

inline utf8proc_category_t category(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

/// Unicode's White_Space.
bool is_space(char32_t code);
/// Any category P*.
bool is_punctuation(char32_t code);
/// BERT's idea of it: with every ASCII symbol.
inline bool is_bert_punctuation(char32_t c) {
  return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
         (c >= 123 && c <= 126) || (c >= 128 && is_punctuation(c));
}
/// Control, format, private use and surrogate; what is not assigned yet does not count.
bool is_other(char32_t code);
inline bool is_nonspacing_mark(char32_t code) { return category(code) == UTF8PROC_CATEGORY_MN; }
/// \w of the reference regex engines: alphabetic, mark, decimal digit, connector, joiner.
bool is_word(char32_t code);
bool is_ascii(std::string_view text);
/// The text with every invalid byte as U+FFFD.
std::string replace_invalid(std::string_view text);
/// Bytes at the end of `text` that begin a character which is not complete.
size_t incomplete_tail(std::string_view text);
/// Number of code points.
size_t count_characters(std::string_view text);

/// Appends the lower case of one code point, in full (U+0130 becomes two).
void append_lower(std::string& out, char32_t code);

enum class NormalForm { nfc, nfd, nfkc, nfkd };
/// Appends one segment (see below) in the given form.
void append_normalized(std::string& out, std::string_view segment, NormalForm form);
/// End of the segment that begins at `begin`: grapheme clusters, joined where the next one starts,
/// when decomposed, with something that may compose with what is before it, as ㅉ and ㅏ do.
/// Normalising segment by segment equals normalising the whole.
size_t segment_end(std::string_view text, size_t begin, NormalForm form);
/// End of the grapheme cluster that begins at `begin`.
size_t cluster_end(std::string_view text, size_t begin);

}  // namespace heed::text
