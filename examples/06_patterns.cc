// Lesson 6. Is it attention at all, and what kind? Checking weights and naming patterns.
#include <cmath>
#include <cstdio>
#include <functional>

#include "heed/inspect.h"
#include "heed/ops.h"
#include "heed/picture.h"

using namespace heed;

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
  std::printf("%s: %s\n", what, found.ok() ? "all is well" : "not right");
  for (const std::string& problem : found.problems) {
    std::printf("  %s\n", problem.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  // Five heads, each with a habit that trained models show too.
  const std::pair<const char*, Tensor> heads[] = {
      {"looks at itself", head([](int64_t i, int64_t j) { return i == j ? 6.0 : 0.0; })},
      {"looks one back", head([](int64_t i, int64_t j) { return j == i - 1 ? 6.0 : 0.0; })},
      {"rests on the first", head([](int64_t, int64_t j) { return j == 0 ? 6.0 : 0.0; })},
      {"stays near", head([](int64_t i, int64_t j) { return std::abs(i - j) < 3 ? 4.0 : 0.0; })},
      {"spreads out", head([](int64_t, int64_t) { return 0.0; })},
  };
  std::printf("%-20s %-15s %8s %9s %9s\n", "head", "pattern", "own", "entropy", "distance");
  Heatmap map{.title = "Five habits"};
  for (const auto& [name, weights] : heads) {
    const AttentionPatterns found = attention_patterns(weights);
    std::printf("%-20s %-15s %8.2f %9.2f %9.2f\n", name, name_of_pattern(found).c_str(),
                found.diagonal, found.entropy, found.mean_distance);
    map.panels.push_back({name, weights});
  }
  if (argc > 1) {  // a folder for the lesson's picture
    map.panels_across = 5;
    save_picture(std::string(argv[1]) + "/06.svg", map);
  }

  // What every matrix of weights must keep to, and how it looks when it does not.
  std::printf("\n");
  const auto even = [](int64_t, int64_t) { return 0.0; };
  report("full attention", head(even), false);
  report("causal attention", head(even, true), true);
  report("causal, mask forgotten", head(even), true);
  report("rows doubled", mul(head(even), 2.0), false);
  Tensor broken = head(even).clone();
  broken.data<float>()[5] = NAN;
  report("a NaN inside", broken, false);

  // Why long inputs need tiles: the matrix grows with the square of the length.
  std::printf("\n");
  for (const int64_t length : {1024, 4096, 16384, 65536}) {
    std::printf("%6ld tokens: %8.0f MB for one head's matrix\n", length,
                attention_matrix_bytes(length, DType::f32) / (1 << 20));
  }
}
