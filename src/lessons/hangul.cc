#include "lessons/hangul.h"

#include <cstdint>

namespace heed {

bool ends_in_consonant(std::string_view word) {
  if (word.size() < 3) {
    return false;
  }
  const auto byte = [&](size_t back) {
    return static_cast<uint32_t>(static_cast<uint8_t>(word[word.size() - back]));
  };
  if ((byte(3) & 0xf0) != 0xe0) {
    return false;
  }
  const uint32_t code = (byte(3) & 0x0f) << 12 | (byte(2) & 0x3f) << 6 | (byte(1) & 0x3f);
  // Syllables lie at U+AC00 … U+D7A3, 28 for each initial and vowel: the first without a final.
  return code >= 0xac00 && code <= 0xd7a3 && (code - 0xac00) % 28 != 0;
}

std::string with_particle(std::string_view word, Particle particle) {
  static constexpr std::string_view kForms[4][2] = {
      {"는", "은"}, {"가", "이"}, {"를", "을"}, {"와", "과"}};
  return std::string(word).append(kForms[static_cast<int>(particle)][ends_in_consonant(word)]);
}

std::string korean_number(int number) {
  static constexpr std::string_view kDigits[] = {"영", "일", "이", "삼", "사",
                                                 "오", "육", "칠", "팔", "구"};
  static constexpr std::string_view kUnits[] = {"천", "백", "십", ""};
  if (number == 0) {
    return "영";
  }
  std::string text;
  int divisor = 1000;
  for (const std::string_view unit : kUnits) {
    const int digit = number / divisor % 10;
    divisor /= 10;
    if (digit > 1 || (digit == 1 && unit.empty())) {
      text += kDigits[digit];
    }
    if (digit > 0) {
      text += unit;
    }
  }
  return text;
}

}  // namespace heed
