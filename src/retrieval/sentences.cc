#include "retrieval/sentences.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/utf8.h"

namespace heed {
namespace {

// Lower-case, without the last period.
constexpr std::array<std::string_view, 51> kAbbreviations = {
    "mr",   "mrs", "ms",  "dr",  "prof", "rev",  "hon",  "sr",  "jr",  "st",   "mt",
    "vs",   "etc", "e.g", "i.e", "cf",   "al",   "no",   "nos", "vol", "vols", "fig",
    "figs", "eq",  "eqs", "sec", "ch",   "chap", "pp",   "p",   "ed",  "eds",  "approx",
    "ca",   "inc", "ltd", "co",  "corp", "dept", "univ", "gen", "col", "sgt",  "capt",
    "lt",   "gov", "sen", "rep", "jan",  "feb",  "dec"};

// Korean words that come before a period without ending a sentence are rare; endings that close a
// sentence at a line end even without one:
constexpr std::array<std::string_view, 10> kKoreanEndings = {"다", "요", "까", "죠", "네",
                                                             "음", "함", "임", "됨", "라"};

struct Character {
  int32_t code = 0;
  size_t bytes = 1;
};

Character character_at(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) {
    return {first, 1};
  }
  Character c;
  const utf8proc_ssize_t bytes =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                       static_cast<utf8proc_ssize_t>(text.size() - at), &c.code);
  return bytes > 0 ? Character{c.code, static_cast<size_t>(bytes)} : Character{0xfffd, 1};
}

bool is_space(int32_t c) {
  return c == ' ' || (c >= '\t' && c <= '\r') || c == 0xa0 || c == 0x3000 || c == 0x2028 ||
         c == 0x2029;
}

bool is_terminator(int32_t c) {
  return c == '.' || c == '!' || c == '?' || c == 0x2026 || c == 0x3002 || c == 0xff01 ||
         c == 0xff1f || c == 0xff0e;
}

/// Terminators after which the next sentence may follow without a space.
bool is_wide_terminator(int32_t c) {
  return c == 0x3002 || c == 0xff01 || c == 0xff1f || c == 0xff0e;
}

bool is_closer(int32_t c) {
  return c == '"' || c == '\'' || c == ')' || c == ']' || c == '}' || c == 0x201d || c == 0x2019 ||
         c == 0xbb || (c >= 0x3009 && c <= 0x3011 && c % 2 == 1) || c == 0xff09;
}

bool is_hangul_syllable(int32_t c) { return c >= 0xac00 && c <= 0xd7a3; }

bool is_lower(int32_t c) { return utf8proc_category(c) == UTF8PROC_CATEGORY_LL; }

/// The word of letters and inner periods that ends before `end`, lower-case; of a long one, which
/// is no abbreviation, the last bytes.
std::string word_before(std::string_view text, size_t end) {
  constexpr size_t kLongest = 16;
  size_t begin = end;
  while (begin > 0 && end - begin < kLongest) {
    const auto c = static_cast<unsigned char>(text[begin - 1]);
    const int lower = c | 0x20;
    if (!(c == '.' || c >= 0x80 || (lower >= 'a' && lower <= 'z'))) {
      break;
    }
    --begin;
  }
  std::string word(text.substr(begin, end - begin));
  std::transform(word.begin(), word.end(), word.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
  return word;
}

/// Whether the period at `at` belongs to an abbreviation or an initial.
bool is_abbreviation(std::string_view text, size_t at) {
  const std::string word = word_before(text, at);
  if (word.size() == 1 && word[0] != 'i') {
    return true;  // "J. Smith"; but "so do I."
  }
  if (word.size() == 3 && word[1] == '.') {
    return true;  // "U.S", "e.g"
  }
  return std::find(kAbbreviations.begin(), kAbbreviations.end(), word) != kAbbreviations.end();
}

class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  std::vector<TextSpan> run() {
    size_t at = 0;
    while (at < text_.size()) {
      const Character c = character_at(text_, at);
      if (is_terminator(c.code)) {
        at = after_terminators(at);
        continue;
      }
      if (c.code == '\n' && ends_line(at)) {
        end_sentence(at);
      }
      before_ = is_space(c.code) ? before_ : c.code;
      at += c.bytes;
    }
    end_sentence(text_.size());
    return std::move(spans_);
  }

 private:
  /// Skips a run of terminators and what closes it; ends the sentence where it does.
  size_t after_terminators(size_t at) {
    const size_t first = at;
    bool period_only = true;
    bool wide = false;
    size_t count = 0;
    for (; at < text_.size(); ++count) {
      const Character c = character_at(text_, at);
      if (!is_terminator(c.code)) {
        break;
      }
      period_only = period_only && c.code == '.';
      wide = wide || is_wide_terminator(c.code);
      at += c.bytes;
    }
    size_t closed = at;
    while (closed < text_.size() && is_closer(character_at(text_, closed).code)) {
      closed += character_at(text_, closed).bytes;
    }
    const int32_t next = closed < text_.size() ? character_at(text_, closed).code : ' ';
    const bool korean = is_hangul_syllable(before_) && is_hangul_syllable(next);
    bool ends = is_space(next) || wide || korean;
    if (ends && period_only && !korean && is_space(next)) {
      ends = !(count == 1 && is_abbreviation(text_, first)) && !starts_lower(closed);
    }
    if (ends) {
      end_sentence(closed);
      return closed;
    }
    before_ = '.';
    return at;
  }

  bool starts_lower(size_t at) const {
    while (at < text_.size() && is_space(character_at(text_, at).code)) {
      at += character_at(text_, at).bytes;
    }
    return at < text_.size() && is_lower(character_at(text_, at).code);
  }

  /// Whether the newline at `at` ends a sentence: a blank line, a list item or heading behind it,
  /// or a Korean ending before it.
  bool ends_line(size_t at) const {
    size_t next = at + 1;
    while (next < text_.size() &&
           (text_[next] == ' ' || text_[next] == '\t' || text_[next] == '\r')) {
      ++next;
    }
    if (next >= text_.size() || text_[next] == '\n' || text_.substr(next, 2) == "- " ||
        text_.substr(next, 2) == "* " || text_[next] == '#' || text_[next] == '|') {
      return true;
    }
    size_t end = at;
    while (end > 0 && (text_[end - 1] == ' ' || text_[end - 1] == '\t' || text_[end - 1] == '\r')) {
      --end;
    }
    const std::string_view line = text_.substr(0, end);
    return std::any_of(kKoreanEndings.begin(), kKoreanEndings.end(),
                       [&](std::string_view ending) { return line.ends_with(ending); });
  }

  void end_sentence(size_t end) {
    size_t begin = begin_;
    while (begin < end && is_space(character_at(text_, begin).code)) {
      begin += character_at(text_, begin).bytes;
    }
    size_t last = end;
    // In ASCII: other bytes are parts of characters, such as the second one of "à", 0xA0.
    const auto is_ascii_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
    while (last > begin && is_ascii_space(text_[last - 1])) {
      --last;
    }
    if (last > begin) {
      spans_.push_back({static_cast<int64_t>(begin), static_cast<int64_t>(last)});
    }
    begin_ = end;
    before_ = 0;
  }

  std::string_view text_;
  size_t begin_ = 0;    // of the sentence
  int32_t before_ = 0;  // the last character that is no space
  std::vector<TextSpan> spans_;
};

}  // namespace

std::vector<TextSpan> split_sentences(std::string_view text) { return Splitter(text).run(); }

}  // namespace heed
