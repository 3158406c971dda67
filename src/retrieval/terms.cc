#include "retrieval/terms.h"

#include <utf8proc.h>

#include <cstdlib>

#include "base/utf8.h"

namespace heed {
namespace {

enum class Script { none, mark, word, hangul, ideographic };

/// Whether a code point lies in one of the blocks whose words are not separated by spaces.
bool is_ideographic(int32_t c) {
  return (c >= 0x3040 && c <= 0x30ff) || (c >= 0x31f0 && c <= 0x31ff) ||
         (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x4e00 && c <= 0x9fff) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x20000 && c <= 0x3134f);
}

bool is_hangul(int32_t c) {
  return (c >= 0xac00 && c <= 0xd7a3) || (c >= 0x1100 && c <= 0x11ff) ||
         (c >= 0x3130 && c <= 0x318f) || (c >= 0xa960 && c <= 0xa97f) ||
         (c >= 0xd7b0 && c <= 0xd7ff);
}

Script script_of(int32_t c) {
  if (c < 0x80) {
    const bool letter = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    return letter ? Script::word : Script::none;
  }
  if (is_hangul(c)) {
    return Script::hangul;
  }
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
    case UTF8PROC_CATEGORY_CO:
      return is_ideographic(c) ? Script::ideographic : Script::word;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return Script::mark;
    default:
      return Script::none;
  }
}

/// Case-folded, compatibility forms replaced, accents removed, composed (Hangul as syllables).
std::string fold(std::string_view word) {
  bool ascii = true;
  for (const char c : word) {
    ascii = ascii && static_cast<unsigned char>(c) < 0x80;
  }
  if (ascii) {
    std::string lower(word);
    for (char& c : lower) {
      c = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    }
    return lower;
  }
  utf8proc_uint8_t* folded = nullptr;
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPAT | UTF8PROC_COMPOSE |
                                     UTF8PROC_CASEFOLD | UTF8PROC_STRIPMARK | UTF8PROC_IGNORE);
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(word.data()),
                   static_cast<utf8proc_ssize_t>(word.size()), &folded, options);
  if (size < 0) {
    return std::string(word);
  }
  std::string result(reinterpret_cast<const char*>(folded), static_cast<size_t>(size));
  std::free(folded);
  return result;
}

/// A run of characters of one script: bytes [begin, end) of the text.
struct Run {
  Script script = Script::none;
  size_t begin = 0, end = 0;
  std::vector<size_t> starts;  ///< of each character
};

void append_bigrams(std::string_view text, const Run& run, std::vector<Term>& terms) {
  for (size_t i = 0; i + 1 < run.starts.size(); ++i) {
    const size_t begin = run.starts[i];
    const size_t end = i + 2 < run.starts.size() ? run.starts[i + 2] : run.end;
    terms.push_back({fold(text.substr(begin, end - begin)),
                     {static_cast<int64_t>(begin), static_cast<int64_t>(end)}});
  }
}

void append_terms(std::string_view text, const Run& run, std::vector<Term>& terms) {
  // Beyond this a "word" is base64 or the like: nobody asks for it, and it would bloat the index.
  constexpr size_t kLongestWord = 200;
  if (run.end - run.begin > kLongestWord && run.script == Script::word) {
    return;
  }
  const bool bigrams = run.script != Script::word && run.starts.size() > 1;
  const bool whole = run.script == Script::word || run.starts.size() < 2 ||
                     (run.script == Script::hangul && run.starts.size() > 2 &&
                      run.end - run.begin <= kLongestWord);
  if (whole) {
    std::string word = fold(text.substr(run.begin, run.end - run.begin));
    if (!word.empty()) {
      terms.push_back(
          {std::move(word), {static_cast<int64_t>(run.begin), static_cast<int64_t>(run.end)}});
    }
  }
  if (bigrams) {
    append_bigrams(text, run, terms);
  }
}

}  // namespace

std::vector<Term> terms_of(std::string_view text) {
  std::vector<Term> terms;
  Run run;
  const auto finish = [&](size_t end) {
    if (run.script != Script::none) {
      run.end = end;
      append_terms(text, run, terms);
    }
    run = Run{};
  };
  for (size_t at = 0; at < text.size();) {
    int32_t c = 0;
    utf8proc_ssize_t bytes =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                         static_cast<utf8proc_ssize_t>(text.size() - at), &c);
    if (bytes <= 0) {
      bytes = 1;
      c = 0;
    }
    const Script script = c == 0 ? Script::none : script_of(c);
    const bool continues =
        script == Script::mark ? run.script != Script::none : script == run.script;
    if (!continues) {
      finish(at);
      if (script != Script::none && script != Script::mark) {
        run.script = script;
        run.begin = at;
      }
    }
    if (run.script != Script::none && script != Script::mark) {
      run.starts.push_back(at);
    }
    at += static_cast<size_t>(bytes);
  }
  finish(text.size());
  return terms;
}

std::string term_text(std::string_view text) {
  std::string joined;
  for (const Term& term : terms_of(text)) {
    if (!joined.empty()) {
      joined += ' ';
    }
    joined += term.text;
  }
  return joined;
}

}  // namespace heed
