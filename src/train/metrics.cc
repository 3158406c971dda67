#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

#include "base/check.h"
#include "heed/train.h"
#include "text/unicode.h"

namespace heed {
namespace {

constexpr size_t kWordOrder = 4;  // BLEU
constexpr size_t kCharOrder = 6;  // chrF
constexpr double kBeta = 2.0;
constexpr int64_t kMostConfused = 1000;  // classes of a confusion matrix

void check_pairs(const std::vector<std::string>& results,
                 const std::vector<std::string>& references, const char* name) {
  check(results.size() == references.size(), name, "{} results for {} references", results.size(),
        references.size());
}

/// What Python's str.split() splits at.
bool is_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x20) || code == 0x85 ||
         code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
         code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

/// Calls fn(characters, code) for every character; a byte that is not UTF-8 is one on its own.
template <class Fn>
void each_character(std::string_view bytes, Fn&& fn) {
  for (size_t place = 0; place < bytes.size();) {
    const text::CodePoint one = text::decode_one(bytes.data() + place, bytes.data() + bytes.size());
    fn(bytes.substr(place, one.length), one.code);
    place += one.length;
  }
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  each_character(text, [&](std::string_view bytes, char32_t code) {
    if (is_space(code)) {
      inside = false;
      return;
    }
    if (!inside) {
      words.emplace_back();
      inside = true;
    }
    words.back() += bytes;
  });
  return words;
}

std::string_view trimmed(std::string_view text) {
  size_t begin = text.size();
  size_t end = 0;
  each_character(text, [&](std::string_view bytes, char32_t code) {
    if (!is_space(code)) {
      const auto at = static_cast<size_t>(bytes.data() - text.data());
      begin = std::min(begin, at);
      end = at + bytes.size();
    }
  });
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_stop(char c) { return c == '.' || c == ','; }
/// ASCII punctuation but for - . , and '; the space belongs to it and does no harm.
bool is_mark(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
         (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
}

/// Replaces what `first` and `second` match side by side, from left to right without overlap, as a
/// regular expression of two characters would. Bytes serve as characters: the tests are for ASCII,
/// and a longer character's bytes all behave as one that is no digit and no stop.
template <class First, class Second>
std::string spaced(const std::string& text, First first, Second second, const char* before,
                   const char* between, const char* after) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && first(text[i]) && second(text[i + 1])) {
      result += before;
      result += text[i];
      result += between;
      result += text[++i];
      result += after;
    } else {
      result += text[i];
    }
  }
  return result;
}

/// How often each n-gram occurs.
using Counts = std::unordered_map<std::string, int64_t>;

template <class Units>
Counts count_grams(const Units& units, size_t length, const char* between) {
  Counts counts;
  for (size_t begin = 0; begin + length <= units.size(); ++begin) {
    std::string key;
    for (size_t i = 0; i < length; ++i) {
      key += units[begin + i];
      key += between;
    }
    ++counts[key];
  }
  return counts;
}

int64_t overlap(const Counts& result, const Counts& reference) {
  int64_t shared = 0;
  for (const auto& [gram, count] : result) {
    const auto found = reference.find(gram);
    shared += found == reference.end() ? 0 : std::min(count, found->second);
  }
  return shared;
}

int64_t grams_of(size_t units, size_t length) {
  return units >= length ? static_cast<int64_t>(units - length + 1) : 0;
}

std::vector<std::string> characters_of(std::string_view text) {
  std::vector<std::string> characters;
  each_character(text, [&](std::string_view bytes, char32_t code) {
    if (!is_space(code)) {
      characters.emplace_back(bytes);
    }
  });
  return characters;
}

}  // namespace

std::vector<std::string> tokenize_13a(std::string_view line) {
  std::string text(line);
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  for (const auto& [name, character] :
       {std::pair{"&quot;", "\""}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}}) {
    replace_all(text, name, character);
  }
  std::string marked = " ";
  for (const char c : text) {
    marked += is_mark(c) ? std::string{' ', c, ' '} : std::string(1, c);
  }
  marked += ' ';
  const auto other = [](char c) { return !is_digit(c); };
  marked = spaced(marked, other, is_stop, "", " ", " ");
  marked = spaced(marked, is_stop, other, " ", " ", "");
  marked = spaced(
      marked, is_digit, [](char c) { return c == '-'; }, "", " ", " ");
  return split_words(marked);
}

Bleu corpus_bleu(const std::vector<std::string>& results,
                 const std::vector<std::string>& references) {
  check_pairs(results, references, "bleu");
  Bleu bleu;
  std::array<int64_t, kWordOrder> shared = {};
  std::array<int64_t, kWordOrder> total = {};
  for (size_t i = 0; i < results.size(); ++i) {
    const std::vector<std::string> result = tokenize_13a(results[i]);
    const std::vector<std::string> reference = tokenize_13a(references[i]);
    bleu.result_tokens += static_cast<int64_t>(result.size());
    bleu.reference_tokens += static_cast<int64_t>(reference.size());
    for (size_t n = 1; n <= kWordOrder; ++n) {
      shared[n - 1] += overlap(count_grams(result, n, " "), count_grams(reference, n, " "));
      total[n - 1] += grams_of(result.size(), n);
    }
  }
  if (bleu.result_tokens > 0) {
    bleu.brevity = std::min(1.0, std::exp(1.0 - static_cast<double>(bleu.reference_tokens) /
                                                    static_cast<double>(bleu.result_tokens)));
  }
  if (shared[0] == 0) {
    return bleu;  // no smoothing where nothing at all was right
  }
  double smoothing = 1.0;
  double logs = 0.0;
  for (size_t n = 0; n < kWordOrder; ++n) {
    if (total[n] == 0) {
      return bleu;  // no result is long enough: the product is 0
    }
    if (shared[n] == 0) {
      smoothing *= 2.0;
    }
    bleu.precisions[n] = 100.0 *
                         (shared[n] > 0 ? static_cast<double>(shared[n]) : 1.0 / smoothing) /
                         static_cast<double>(total[n]);
    logs += std::log(bleu.precisions[n]);
  }
  bleu.score = bleu.brevity * std::exp(logs / kWordOrder);
  return bleu;
}

double corpus_chrf(const std::vector<std::string>& results,
                   const std::vector<std::string>& references) {
  check_pairs(results, references, "chrf");
  struct Sums {
    int64_t result = 0, reference = 0, shared = 0;
  };
  std::array<Sums, kCharOrder> sums = {};
  for (size_t i = 0; i < results.size(); ++i) {
    const std::vector<std::string> result = characters_of(results[i]);
    const std::vector<std::string> reference = characters_of(references[i]);
    for (size_t n = 1; n <= kCharOrder; ++n) {
      const Counts wanted = count_grams(reference, n, "");
      // As sacreBLEU: a reference too short for n-grams of this length does not count against it.
      sums[n - 1].result += wanted.empty() ? 0 : grams_of(result.size(), n);
      sums[n - 1].reference += grams_of(reference.size(), n);
      sums[n - 1].shared += overlap(count_grams(result, n, ""), wanted);
    }
  }
  double precision = 0.0;
  double recall = 0.0;
  int orders = 0;
  for (const Sums& sum : sums) {
    if (sum.result > 0 && sum.reference > 0) {
      precision += static_cast<double>(sum.shared) / static_cast<double>(sum.result);
      recall += static_cast<double>(sum.shared) / static_cast<double>(sum.reference);
      ++orders;
    }
  }
  if (precision + recall == 0.0) {
    return 0.0;
  }
  precision /= orders;
  recall /= orders;
  constexpr double kFactor = kBeta * kBeta;
  return 100.0 * (1.0 + kFactor) * precision * recall / (kFactor * precision + recall);
}

namespace {

/// Words in lower case (ASCII), without punctuation at their ends.
std::vector<std::string> spoken_words(const std::string& text) {
  const auto is_mark = [](char c) {
    return std::string_view(".,;:!?\"'()[]").find(c) != std::string_view::npos;
  };
  std::vector<std::string> words;
  std::string word;
  const auto finish = [&] {
    while (!word.empty() && is_mark(word.back())) {
      word.pop_back();
    }
    if (!word.empty()) {
      words.push_back(std::move(word));
    }
    word.clear();
  };
  for (const char c : text) {
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      finish();
    } else if (!word.empty() || !is_mark(c)) {
      word += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  finish();
  return words;
}

int64_t word_edits(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<int64_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    row[j] = static_cast<int64_t>(j);
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    int64_t diagonal = row[0];
    row[0] = static_cast<int64_t>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int64_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row.back();
}

}  // namespace

double word_error_rate(const std::vector<std::string>& results,
                       const std::vector<std::string>& references) {
  check(results.size() == references.size(), "word_error_rate", "{} results for {} references",
        results.size(), references.size());
  int64_t edits = 0, words = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const std::vector<std::string> reference = spoken_words(references[i]);
    edits += word_edits(spoken_words(results[i]), reference);
    words += static_cast<int64_t>(reference.size());
  }
  return words == 0 ? 0.0 : static_cast<double>(edits) / static_cast<double>(words);
}

double exact_match(const std::vector<std::string>& results,
                   const std::vector<std::string>& references) {
  check_pairs(results, references, "exact match");
  int64_t same = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    same += trimmed(results[i]) == trimmed(references[i]);
  }
  return results.empty() ? 0.0 : static_cast<double>(same) / static_cast<double>(results.size());
}

ClassScores class_scores(const std::vector<int64_t>& truth, const std::vector<int64_t>& predicted,
                         int64_t classes) {
  check(truth.size() == predicted.size(), "class scores", "{} predictions for {} labels",
        predicted.size(), truth.size());
  struct Sums {
    int64_t right = 0, truth = 0, predicted = 0;
  };
  std::vector<Sums> sums(static_cast<size_t>(classes));
  ClassScores scores;
  if (classes <= kMostConfused) {
    scores.confusion.assign(sums.size(), std::vector<int64_t>(sums.size()));
  }
  for (size_t i = 0; i < truth.size(); ++i) {
    check(truth[i] >= 0 && truth[i] < classes && predicted[i] >= 0 && predicted[i] < classes,
          "class scores", "class {} or {} is not below {}, the number of classes", truth[i],
          predicted[i], classes);
    if (!scores.confusion.empty()) {
      ++scores.confusion[static_cast<size_t>(truth[i])][static_cast<size_t>(predicted[i])];
    }
    ++sums[static_cast<size_t>(truth[i])].truth;
    ++sums[static_cast<size_t>(predicted[i])].predicted;
    if (truth[i] == predicted[i]) {
      ++sums[static_cast<size_t>(truth[i])].right;
      scores.accuracy += 1.0;
    }
  }
  scores.accuracy /= static_cast<double>(std::max<size_t>(truth.size(), 1));
  int64_t present = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    const int64_t both = sums[i].truth + sums[i].predicted;
    const auto right = static_cast<double>(sums[i].right);
    const double f1 = both > 0 ? 2.0 * right / static_cast<double>(both) : 0.0;
    present += both > 0;
    scores.macro_f1 += f1;
    ClassScore& score = scores.classes.emplace_back();
    score.support = sums[i].truth;
    score.predicted = sums[i].predicted;
    score.precision = right / static_cast<double>(std::max<int64_t>(sums[i].predicted, 1));
    score.recall = right / static_cast<double>(std::max<int64_t>(sums[i].truth, 1));
    score.f1 = f1;
    if (classes == 2 && i == 1) {
      scores.binary_f1 = f1;
    }
  }
  scores.macro_f1 /= static_cast<double>(std::max<int64_t>(present, 1));
  return scores;
}

}  // namespace heed
