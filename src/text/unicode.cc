#include "text/unicode.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace heed::text {
namespace {

CharClass classify(char32_t code) {
  if (is_space(code)) {
    return CharClass::space;
  }
  switch (category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::number;
    default:
      return CharClass::other;
  }
}

constexpr char32_t kPlane = 0x10000;

/// Classes of the basic plane, asked of utf8proc once.
const std::array<CharClass, kPlane>& plane_classes() {
  static const auto table = [] {
    std::array<CharClass, kPlane> classes{};
    for (char32_t code = 0; code < kPlane; ++code) {
      classes[code] = classify(code);
    }
    return classes;
  }();
  return table;
}

/// Whether a character, once decomposed, may compose with or move before what precedes it.
bool joins_backward(char32_t code, bool compatible) {
  if (code < 0x300) {
    return false;
  }
  std::array<utf8proc_int32_t, 32> parts{};
  int state = 0;
  const auto n = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(code), parts.data(), parts.size(),
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0)),
      &state);
  if (n < 1) {
    return false;
  }
  const bool vowel_or_final =
      (parts[0] >= 0x1161 && parts[0] <= 0x1175) || (parts[0] >= 0x11A8 && parts[0] <= 0x11C2);
  return vowel_or_final || utf8proc_get_property(parts[0])->combining_class != 0;
}

}  // namespace

CharClasses::CharClasses() : plane_(plane_classes().data()) {}

CharClass CharClasses::beyond_plane(char32_t code) { return classify(code); }

bool is_space(char32_t code) {
  if (code < 0x80) {
    return code == ' ' || (code >= 9 && code <= 13);
  }
  if (code == 0x85) {
    return true;
  }
  switch (category(code)) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return true;
    default:
      return false;
  }
}

bool is_punctuation(char32_t code) {
  switch (category(code)) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return true;
    default:
      return false;
  }
}

bool is_other(char32_t code) {
  switch (category(code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CS:
      return true;
    default:
      return false;
  }
}

bool is_word(char32_t code) {
  switch (category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    case UTF8PROC_CATEGORY_CF:
      return code == 0x200C || code == 0x200D;
    case UTF8PROC_CATEGORY_SO:  // circled and squared letters are alphabetic: they have a case or
                                // decompose to a letter
      return utf8proc_tolower(static_cast<utf8proc_int32_t>(code)) !=
                 static_cast<utf8proc_int32_t>(code) ||
             utf8proc_toupper(static_cast<utf8proc_int32_t>(code)) !=
                 static_cast<utf8proc_int32_t>(code);
    default:
      return false;
  }
}

bool is_ascii(std::string_view text) {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    if ((word & 0x8080808080808080u) != 0) {
      return false;
    }
  }
  for (; i < text.size(); ++i) {
    if (static_cast<unsigned char>(text[i]) >= 0x80) {
      return false;
    }
  }
  return true;
}

std::string replace_invalid(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const char* end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const CodePoint one = decode_one(p, end);
    out.append(one.valid ? std::string_view(p, one.length) : kReplacement);
    p += one.length;
  }
  return out;
}

size_t incomplete_tail(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) {
      continue;
    }
    const size_t wanted = byte >= 0xF0 && byte < 0xF5   ? 4
                          : byte >= 0xE0 && byte < 0xF0 ? 3
                          : byte >= 0xC2 && byte < 0xE0 ? 2
                                                        : 1;
    return wanted > back ? back : 0;
  }
  return 0;
}

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

void append_lower(std::string& out, char32_t code) {
  constexpr char32_t kCapitalDotted = 0x130;
  if (code == kCapitalDotted) {
    out += "i\xCC\x87";
    return;
  }
  append_code(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
}

void append_normalized(std::string& out, std::string_view segment, NormalForm form) {
  int options = UTF8PROC_STABLE;
  options |=
      form == NormalForm::nfc || form == NormalForm::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  options |= form == NormalForm::nfkc || form == NormalForm::nfkd ? UTF8PROC_COMPAT : 0;
  const auto option = static_cast<utf8proc_option_t>(options);
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(segment.data());
  const auto size = static_cast<utf8proc_ssize_t>(segment.size());
  std::array<utf8proc_int32_t, 64> small;
  std::vector<utf8proc_int32_t> large;
  utf8proc_int32_t* buffer = small.data();
  auto n = utf8proc_decompose(bytes, size, buffer, static_cast<utf8proc_ssize_t>(small.size() - 1),
                              option);
  if (n >= static_cast<utf8proc_ssize_t>(small.size())) {
    large.resize(static_cast<size_t>(n) + 1);
    buffer = large.data();
    n = utf8proc_decompose(bytes, size, buffer, n, option);
  }
  if (n < 0) {  // bytes that are not UTF-8 stay as they are
    out.append(segment);
    return;
  }
  n = utf8proc_normalize_utf32(buffer, n, option);
  for (utf8proc_ssize_t i = 0; i < n; ++i) {
    append_code(out, static_cast<char32_t>(buffer[i]));
  }
}

size_t segment_end(std::string_view text, size_t begin, NormalForm form) {
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  constexpr size_t kLongest = 4096;  // no more than a cluster of its own needs
  size_t end = cluster_end(text, begin);
  while (
      end < text.size() && end - begin < kLongest &&
      joins_backward(decode_one(text.data() + end, text.data() + text.size()).code, compatible)) {
    end = cluster_end(text, end);
  }
  return end;
}

size_t cluster_end(std::string_view text, size_t begin) {
  const char* end = text.data() + text.size();
  const char* p = text.data() + begin;
  CodePoint last = decode_one(p, end);
  p += last.length;
  utf8proc_int32_t state = 0;
  // utf8proc reorders marks in quadratic time; no writing needs more of them than this.
  constexpr int kMostCharacters = 1024;
  for (int n = 1; n < kMostCharacters && p < end && last.valid; ++n) {
    const CodePoint next = decode_one(p, end);
    if (!next.valid ||
        utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last.code),
                                         static_cast<utf8proc_int32_t>(next.code), &state) != 0) {
      break;
    }
    last = next;
    p += next.length;
  }
  return static_cast<size_t>(p - text.data());
}

}  // namespace heed::text
