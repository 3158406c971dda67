// Lesson 7. Attention does not know order. Four ways to tell it: sinusoids, rotation, ALiBi, T5.
#include <cstdio>
#include <iostream>

#include "heed/picture.h"
#include "heed/transformer.h"
#include "lesson.h"

using namespace heed;
using lesson::say;

namespace {

constexpr int64_t kWidth = 64, kPlaces = 128;

Tensor random_rows(int64_t rows, uint64_t seed) {
  return Scope::fresh(seed).buffer("x", {rows, kWidth}, Init::normal(1.0));
}

/// What attention makes of three words.
Tensor read(const Tensor& words) {
  const Tensor x = reshape(words, {1, 1, 3, kWidth});
  return attention(x, x, x);
}

/// Whether "dog" comes out the same, standing first and last.
bool same(const Tensor& a, const Tensor& b) {
  const Tensor difference = select(read(a), 2, 0) - select(read(b), 2, 2);
  return sum(difference * difference).item() < 1e-10;
}

}  // namespace

int main(int argc, char** argv) {
  // "dog bites man" and "man bites dog": the same bag of words.
  const Tensor words = random_rows(3, 1);
  const Tensor reversed = index_rows(words, Tensor::from<int64_t>({2, 1, 0}, {3}));
  const Tensor sines = sinusoidal_positions(kPlaces, kWidth, SinusoidLayout::interleaved);
  const Tensor first = slice(sines, 0, 0, 3);
  std::printf(say("\"dog\" comes out the same in both orders, without positions: %s\n",
                  "위치 없이, 어느 순서에서나 \"dog\"의 결과가 같음: %s\n"),
              lesson::yes_or_no(same(words, reversed)));
  std::printf(say("and with sinusoids added: %s\n\n", "사인파를 더하면: %s\n\n"),
              lesson::yes_or_no(same(words + first, reversed + first)));

  // Sinusoids: near positions are alike, and how alike depends on the distance alone.
  const Tensor alike = mul(matmul(sines, transpose(sines)), 2.0 / kWidth);
  std::printf(say("similarity at distance 1: %.3f (3 and 4), %.3f (50 and 51)\n",
                  "거리 1의 유사도: %.3f (3과 4), %.3f (50과 51)\n"),
              alike.to_doubles()[3 * kPlaces + 4], alike.to_doubles()[50 * kPlaces + 51]);
  std::printf(say("similarity at distance 9: %.3f (3 and 12), %.3f (50 and 59)\n\n",
                  "거리 9의 유사도: %.3f (3과 12), %.3f (50과 59)\n\n"),
              alike.to_doubles()[3 * kPlaces + 12], alike.to_doubles()[50 * kPlaces + 59]);
  if (argc > 1) {  // a folder for the lesson's pictures
    Heatmap map = lesson::heatmap(say("Sinusoids", "사인파"));
    map.panels = {{"", sines}};
    map.row_title = say("Position", "위치");
    map.column_title = say("Number", "숫자");
    map.value_title = say("Value", "값");
    save_picture(std::string(argv[1]) + "/07-sinusoids.svg", map);
    map = lesson::heatmap(say("How similar two positions are", "두 위치가 닮은 정도"));
    map.panels = {{"", alike}};
    map.row_title = map.column_title = say("Position", "위치");
    map.value_title = say("Similarity", "유사도");
    save_picture(std::string(argv[1]) + "/07-likeness.svg", map);
  }

  // RoPE: q and k are rotated by their positions; their product depends on the difference only.
  const Rotary rotary(kWidth, kPlaces, 10000.0);
  const Tensor q = reshape(random_rows(1, 2), {1, 1, kWidth});
  const Tensor k = reshape(random_rows(1, 3), {1, 1, kWidth});
  const auto at = [&](const Tensor& x, int64_t place) {
    return rotary(x, Tensor::from<int64_t>({place}, {1}));
  };
  std::printf(say("rotated q at 7 with k at 3:   %.4f\n", "회전한 q(7)와 k(3):   %.4f\n"),
              sum(at(q, 7) * at(k, 3)).item());
  std::printf(say("rotated q at 57 with k at 53: %.4f\n", "회전한 q(57)와 k(53): %.4f\n"),
              sum(at(q, 57) * at(k, 53)).item());
  std::printf(say("rotated q at 57 with k at 3:  %.4f\n\n", "회전한 q(57)와 k(3):  %.4f\n\n"),
              sum(at(q, 57) * at(k, 3)).item());

  // ALiBi: nothing is added to the words; far keys lose score, each head at its own slope.
  std::cout << say("slopes of ALiBi's 8 heads: ", "ALiBi 헤드 8개의 기울기: ") << alibi_slopes(8)
            << "\n";
  // T5: the distance falls into one of 32 buckets, each with a learned number.
  std::printf("%s", say("T5's bucket by distance:", "거리별 T5 버킷:"));
  for (const int64_t distance : {-128, -20, -3, -1, 0, 1, 3, 20, 128}) {
    std::printf(" %ld:%ld", distance, t5_bucket(distance, true, 32, 128));
  }
  std::printf("\n");
}
