#include <algorithm>
#include <string_view>

#include "lessons/example_random.h"

namespace heed {
namespace {

constexpr int kLongest = 12;  // letters
constexpr std::array<std::string_view, 14> kSyllables = {"가", "나", "다", "라", "마", "바", "사",
                                                         "아", "자", "차", "카", "타", "파", "하"};

std::vector<std::string> draw_letters(const SyntheticOptions& options, Random& random) {
  std::vector<std::string> letters(2 + random.below(kLongest - 1));
  for (std::string& letter : letters) {
    letter = options.language == Language::korean
                 ? std::string(pick(random, kSyllables))
                 : std::string(1, static_cast<char>('a' + random.below(26)));
  }
  return letters;
}

std::string join(const std::vector<std::string>& letters) {
  std::string text;
  for (const std::string& letter : letters) {
    text += text.empty() ? letter : " " + letter;
  }
  return text;
}

}  // namespace

TextPair reverse_example(const SyntheticOptions& options, uint64_t index) {
  Random random = example_random(options, SyntheticStream::reverse, index);
  std::vector<std::string> letters = draw_letters(options, random);
  const std::string source = join(letters);
  std::reverse(letters.begin(), letters.end());
  return {source, join(letters)};
}

TextPair copy_example(const SyntheticOptions& options, uint64_t index) {
  Random random = example_random(options, SyntheticStream::copy, index);
  const std::string text = join(draw_letters(options, random));
  return {text, text};
}

TextPair addition_example(const SyntheticOptions& options, uint64_t index) {
  Random random = example_random(options, SyntheticStream::addition, index);
  constexpr std::array<uint64_t, 3> kBounds = {10, 100, 1000};  // one to three digits
  const uint64_t a = random.below(pick(random, kBounds));
  const uint64_t b = random.below(pick(random, kBounds));
  return {std::to_string(a) + "+" + std::to_string(b), std::to_string(a + b)};
}

NumberExample plus_two_example(const SyntheticOptions& options, uint64_t index) {
  Random random = example_random(options, SyntheticStream::plus_two, index);
  constexpr int kCount = 5;
  NumberExample example;
  const bool even = random.below(2) == 0;
  const uint64_t step = random.below(21);
  const uint64_t start = random.below(101 - step * (kCount - 1));
  for (uint64_t i = 0; i < kCount; ++i) {
    const uint64_t value = even ? start + i * step : random.below(101);
    example.input.push_back(static_cast<double>(value));
    example.target.push_back(static_cast<double>(value + 2));
  }
  return example;
}

}  // namespace heed
