// Lesson 6. Is it attention at all, and what kind? Checking weights and naming patterns.
#include <cmath>
#include <cstdio>
#include <functional>

#include "heed/inspect.h"
#include "heed/ops.h"
#include "heed/picture.h"
#include "heed/runtime.h"
#include "lesson.h"

using namespace heed;
using lesson::say;

namespace {

constexpr int64_t kLength = 12;

/// softmax of score(query, key) over all keys, or over those up to the query.
Tensor head(const std::function<double(int64_t, int64_t)>& score, bool causal = false) {
  Tensor scores = Tensor::empty({kLength, kLength});
  for (int64_t i = 0; i < kLength; ++i) {
    for (int64_t j = 0; j < kLength; ++j) {
      scores.data<float>()[i * kLength + j] =
          causal && j > i ? -INFINITY : static_cast<float>(score(i, j));
    }
  }
  return softmax(scores);
}

void report(const char* what, const Tensor& weights, bool causal) {
  const WeightsReport found = validate_weights(weights, causal);
  std::printf("%s: %s\n", what,
              found.ok() ? say("all is well", "이상 없음") : say("not right", "잘못됨"));
  for (const std::string& problem : found.problems) {
    std::printf("  %s\n", translated(problem).c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  set_language(lesson::korean() ? "ko" : "en");
  // Five heads, each with a habit that trained models show too.
  const std::pair<const char*, Tensor> heads[] = {
      {say("looks at itself", "자기 자신을 봄"),
       head([](int64_t i, int64_t j) { return i == j ? 6.0 : 0.0; })},
      {say("looks one back", "하나 앞을 봄"),
       head([](int64_t i, int64_t j) { return j == i - 1 ? 6.0 : 0.0; })},
      {say("rests on the first", "첫 토큰에 머묾"),
       head([](int64_t, int64_t j) { return j == 0 ? 6.0 : 0.0; })},
      {say("stays near", "가까이를 봄"),
       head([](int64_t i, int64_t j) { return std::abs(i - j) < 3 ? 4.0 : 0.0; })},
      {say("spreads out", "고르게 퍼짐"), head([](int64_t, int64_t) { return 0.0; })},
  };
  const auto column = [](const char* english, const char* in_korean, int width) {
    return lesson::pad(say(english, in_korean), width);
  };
  std::printf("%s %s %s %s %s\n", column("head", "헤드", 20).c_str(),
              column("pattern", "패턴", 15).c_str(), column("     own", "    자신", 8).c_str(),
              column("  entropy", " 엔트로피", 9).c_str(),
              column(" distance", "     거리", 9).c_str());
  Heatmap map = lesson::heatmap(say("Five habits", "다섯 가지 습관"));
  for (const auto& [name, weights] : heads) {
    const AttentionPatterns found = attention_patterns(weights);
    std::printf("%s %s %8.2f %9.2f %9.2f\n", lesson::pad(name, 20).c_str(),
                lesson::pad(translated(name_of_pattern(found)), 15).c_str(), found.diagonal,
                found.entropy, found.mean_distance);
    map.panels.push_back({name, weights});
  }
  if (argc > 1) {  // a folder for the lesson's picture
    map.panels_across = 5;
    save_picture(std::string(argv[1]) + "/06.svg", map);
  }

  // What every matrix of weights must keep to, and how it looks when it does not.
  std::printf("\n");
  const auto even = [](int64_t, int64_t) { return 0.0; };
  report(say("full attention", "전체 어텐션"), head(even), false);
  report(say("causal attention", "인과 어텐션"), head(even, true), true);
  report(say("causal, mask forgotten", "인과 어텐션, 마스크를 빠뜨림"), head(even), true);
  report(say("rows doubled", "행이 두 배"), mul(head(even), 2.0), false);
  Tensor broken = head(even).clone();
  broken.data<float>()[5] = NAN;
  report(say("a NaN inside", "NaN이 있음"), broken, false);

  // Why long inputs need tiles: the matrix grows with the square of the length.
  std::printf("\n");
  for (const int64_t length : {1024, 4096, 16384, 65536}) {
    std::printf(say("%6ld tokens: %8.0f MiB for one head's matrix\n",
                    "토큰 %6ld개: 헤드 하나의 행렬 %8.0f MiB\n"),
                length, attention_matrix_bytes(length, DType::f32) / (1 << 20));
  }
}
