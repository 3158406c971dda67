#include <array>
#include <string>

#include "inspect/stroke_font.h"

// Korean syllables are put together from the strokes of their letters, as they are written: the
// first consonant, the vowel beside or below it, and what closes the syllable at the foot.

namespace heed {
namespace {

// Simple consonants on a 4 x 4 grid, by the index of kOrder.
constexpr std::array<const char*, 14> kConsonants{
    "00 40 34",                     // ㄱ
    "00 04 44",                     // ㄴ
    "40 00 04 44",                  // ㄷ
    "00 40 42 02 04 44",            // ㄹ
    "00 40 44 04 00",               // ㅁ
    "00 04 44 40,02 42",            // ㅂ
    "20 04,20 44",                  // ㅅ
    "~00 40 44 04 00",              // ㅇ
    "00 40,20 04,20 44",            // ㅈ
    "20 21,01 41,21 04,21 44",      // ㅊ
    "00 40 34,02 42",               // ㅋ
    "40 00 04 44,02 42",            // ㅌ
    "00 40,10 14,30 34,04 44",      // ㅍ
    "10 30,01 41,~02 42 44 04 02",  // ㅎ
};
enum : int8_t { G, N, D, R, M, B, S, O, J, C, K, T, P, H, None = -1 };

/// One consonant or two side by side.
struct Pair {
  int8_t left;
  int8_t right = None;
};
constexpr std::array<Pair, 19> kFirst{{{G},
                                       {G, G},
                                       {N},
                                       {D},
                                       {D, D},
                                       {R},
                                       {M},
                                       {B},
                                       {B, B},
                                       {S},
                                       {S, S},
                                       {O},
                                       {J},
                                       {J, J},
                                       {C},
                                       {K},
                                       {T},
                                       {P},
                                       {H}}};
constexpr std::array<Pair, 28> kLast{{{None}, {G},    {G, G}, {G, S}, {N},    {N, J}, {N, H},
                                      {D},    {R},    {R, G}, {R, M}, {R, B}, {R, S}, {R, T},
                                      {R, P}, {R, H}, {M},    {B},    {B, S}, {S},    {S, S},
                                      {O},    {J},    {C},    {K},    {T},    {P},    {H}}};
// U+3131 … U+314E.
constexpr std::array<Pair, 30> kSingle{
    {{G},    {G, G}, {G, S}, {N},    {N, J}, {N, H}, {D}, {D, D}, {R},    {R, G},
     {R, M}, {R, B}, {R, S}, {R, T}, {R, P}, {R, H}, {M}, {B},    {B, B}, {B, S},
     {S},    {S, S}, {O},    {J},    {J, J}, {C},    {K}, {T},    {P},    {H}}};

/// A vowel's part below the first consonant and its part next to it.
struct Vowel {
  const char* below;
  const char* beside;
};
constexpr const char* kA = "20 24,22 42";
constexpr const char* kAe = "10 14,40 44,12 42";
constexpr const char* kEo = "30 34,02 32";
constexpr const char* kE = "20 24,40 44,02 22";
constexpr const char* kI = "20 24";
constexpr const char* kOh = "03 43,21 23";
constexpr const char* kU = "01 41,21 24";
constexpr const char* kEu = "02 42";
constexpr std::array<Vowel, 21> kVowels{{{"", kA},
                                         {"", kAe},
                                         {"", "20 24,21 41,23 43"},
                                         {"", "10 14,40 44,11 41,13 43"},
                                         {"", kEo},
                                         {"", kE},
                                         {"", "30 34,01 31,03 33"},
                                         {"", "20 24,40 44,01 21,03 23"},
                                         {kOh, ""},
                                         {kOh, kA},
                                         {kOh, kAe},
                                         {kOh, kI},
                                         {"03 43,11 13,31 33", ""},
                                         {kU, ""},
                                         {kU, kEo},
                                         {kU, kE},
                                         {kU, kI},
                                         {"01 41,11 14,31 34", ""},
                                         {kEu, ""},
                                         {kEu, kI},
                                         {"", kI}}};

struct Box {
  double left, top, right, bottom;
};

constexpr double kWidth = 0.84;  // of a syllable, in em
constexpr double kTop = -0.76;   // over the baseline
constexpr double kHeight = 0.86;

void add(StrokeGlyph& glyph, const char* shape, const Box& box) {
  if (*shape != '\0') {
    add_shape(glyph.strokes, shape, 0.05 + box.left * kWidth, kTop + box.top * kHeight,
              (box.right - box.left) * kWidth / 4, (box.bottom - box.top) * kHeight / 4);
  }
}

void add(StrokeGlyph& glyph, const Pair& pair, const Box& box) {
  if (pair.left == None) {
    return;
  }
  if (pair.right == None) {
    add(glyph, kConsonants[static_cast<size_t>(pair.left)], box);
    return;
  }
  const double width = box.right - box.left;
  add(glyph, kConsonants[static_cast<size_t>(pair.left)],
      {box.left, box.top, box.left + 0.42 * width, box.bottom});
  add(glyph, kConsonants[static_cast<size_t>(pair.right)],
      {box.right - 0.42 * width, box.top, box.right, box.bottom});
}

}  // namespace

StrokeGlyph hangul_glyph(int32_t code) {
  StrokeGlyph glyph;
  glyph.advance = 0.94;
  if (code >= 0x3131 && code <= 0x314E) {
    add(glyph, kSingle[static_cast<size_t>(code - 0x3131)], {0.1, 0.1, 0.9, 0.9});
    return glyph;
  }
  if (code >= 0x314F && code <= 0x3163) {
    const Vowel& vowel = kVowels[static_cast<size_t>(code - 0x314F)];
    add(glyph, vowel.below, {0.0, 0.4, 0.7, 0.9});
    add(glyph, vowel.beside, {0.5, 0.0, 1.0, 1.0});
    return glyph;
  }
  if (code < 0xAC00 || code > 0xD7A3) {
    return {};
  }
  const auto index = static_cast<size_t>(code - 0xAC00);
  const Pair& first = kFirst[index / 588];
  const Vowel& vowel = kVowels[index / 28 % 21];
  const Pair& last = kLast[index % 28];
  const bool below = *vowel.below != '\0', beside = *vowel.beside != '\0';
  const double foot = last.left == None ? 1.0 : 0.60;  // where the upper part ends
  const double right = beside ? 0.54 : 0.86;
  add(glyph, first, {beside ? 0.02 : 0.14, 0.04, right, below ? 0.40 * foot : 0.88 * foot});
  add(glyph, vowel.below, {0.0, 0.54 * foot, beside ? 0.66 : 1.0, 0.98 * foot});
  add(glyph, vowel.beside, {0.60, 0.0, 1.0, foot});
  add(glyph, last, {0.14, 0.70, 0.9, 1.0});
  return glyph;
}

}  // namespace heed
