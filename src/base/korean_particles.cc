#include "base/korean_particles.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace heed {
namespace {

struct Particle {
  std::string_view both;       ///< as it stands in the catalogue
  std::string_view consonant;  ///< after a syllable that ends in a consonant
  std::string_view vowel;      ///< after one that ends in a vowel
  bool after_rieul_as_vowel = false;
};

constexpr std::array kParticles = {
    Particle{"은(는)", "은", "는"},         Particle{"이(가)", "이", "가"},
    Particle{"을(를)", "을", "를"},         Particle{"와(과)", "과", "와"},
    Particle{"(으)로", "으로", "로", true}, Particle{"(이)라고", "이라고", "라고"}};

enum class Sound { unknown, vowel, consonant, rieul };

Sound sound_of_digit(char digit) {
  constexpr std::string_view kConsonant = "036", kRieul = "178";  // 영, 삼, 육; 일, 칠, 팔
  return kConsonant.find(digit) != std::string_view::npos ? Sound::consonant
         : kRieul.find(digit) != std::string_view::npos   ? Sound::rieul
                                                          : Sound::vowel;
}

/// How the last syllable of `text` ends; quotes and brackets behind it are skipped.
Sound ending_of(std::string_view text) {
  while (!text.empty() && std::string_view("'\"`)]}").find(text.back()) != std::string_view::npos) {
    text.remove_suffix(1);
  }
  if (text.empty()) {
    return Sound::unknown;
  }
  if (text.back() >= '0' && text.back() <= '9') {
    return sound_of_digit(text.back());
  }
  constexpr uint32_t kFirst = 0xAC00, kLast = 0xD7A3, kEndings = 28, kRieul = 8;
  if (text.size() < 3) {
    return Sound::unknown;
  }
  const auto byte = [&](size_t back) {
    return static_cast<uint32_t>(static_cast<unsigned char>(text[text.size() - back]));
  };
  // Korean syllables take three bytes in UTF-8: 1110xxxx 10xxxxxx 10xxxxxx.
  const uint32_t code = (byte(3) & 0x0FU) << 12 | (byte(2) & 0x3FU) << 6 | (byte(1) & 0x3FU);
  if ((byte(3) & 0xF0U) != 0xE0U || code < kFirst || code > kLast) {
    return Sound::unknown;
  }
  const uint32_t ending = (code - kFirst) % kEndings;
  return ending == 0 ? Sound::vowel : ending == kRieul ? Sound::rieul : Sound::consonant;
}

}  // namespace

std::string with_particles(std::string text) {
  for (const Particle& particle : kParticles) {
    for (size_t at = text.find(particle.both); at != std::string::npos;
         at = text.find(particle.both, at + 1)) {
      const Sound sound = ending_of(std::string_view(text).substr(0, at));
      if (sound == Sound::unknown) {
        continue;
      }
      const bool vowel =
          sound == Sound::vowel || (sound == Sound::rieul && particle.after_rieul_as_vowel);
      text.replace(at, particle.both.size(), vowel ? particle.vowel : particle.consonant);
    }
  }
  return text;
}

}  // namespace heed
