// Lesson 5. Three ways to compute the same attention: the formula, in chunks, and in tiles (flash).
#include <cmath>
#include <cstdio>

#include "heed/inspect.h"
#include "heed/nn.h"
#include "heed/picture.h"
#include "heed/runtime.h"
#include "lesson.h"

using namespace heed;
using lesson::say;

namespace {

const std::pair<const char*, AttentionKernel> kKernels[] = {
    {"reference", AttentionKernel::reference},
    {"chunked", AttentionKernel::chunked},
    {"flash", AttentionKernel::flash}};

Tensor random(const char* name, int64_t length) {
  return Scope::fresh(1).buffer(name, {1, 1, length, 64}, Init::normal(1.0));
}

double worst_difference(const Tensor& a, const Tensor& b) {
  const Tensor difference = reshape(a.to(DType::f64), {-1}) - reshape(b.to(DType::f64), {-1});
  return std::sqrt(max(difference * difference, 0).item());
}

/// Keeps what the last attention left for a second look.
struct Keep final : Observer {
  AttentionRecord record;
  void attention(const std::string&, const AttentionRecord& made) override { record = made; }
};

}  // namespace

int main(int argc, char** argv) {
  LinePlot plot{.title = say("Memory of one head", "헤드 하나의 메모리"),
                .x_title = say("Tokens", "토큰"),
                .y_title = "MiB"};
  plot.log_x = plot.log_y = plot.markers = true;
  plot.series = {{"reference", {}, {}}, {"chunked", {}, {}}, {"flash", {}, {}}};
  for (const int64_t length : {512, 1024, 2048}) {
    const Tensor q = random("q", length), k = random("k", length), v = random("v", length);
    const auto wide = [](const Tensor& x) { return x.to(DType::f64); };
    const Tensor truth = attention_steps(wide(q), wide(k), wide(v)).output;  // in 64 bits
    std::printf(say("%ld tokens; the matrix of one head has %.0f MiB\n",
                    "토큰 %ld개: 헤드 하나의 행렬은 %.0f MiB\n"),
                length, attention_matrix_bytes(length, DType::f32) / (1 << 20));
    for (size_t i = 0; i < 3; ++i) {
      AttentionOptions options;
      options.kernel = kKernels[i].second;
      release_cached_memory();
      reset_peak_memory();
      const int64_t before = memory_stats().in_use;
      const Tensor output = attention(q, k, v, options);
      const double held = static_cast<double>(memory_stats().peak - before) / (1 << 20);
      std::printf(say("  %-9s holds %5.1f MiB, within 0.00001 of the truth: %s\n",
                      "  %-9s %5.1f MiB를 쓰고, 참값과 0.00001까지 같음: %s\n"),
                  kKernels[i].first, held,
                  lesson::yes_or_no(worst_difference(output, truth) < 1e-5));
      plot.series[i].x.push_back(static_cast<double>(length));
      plot.series[i].y.push_back(held);
    }
  }
  if (argc > 1) {  // a folder for the lesson's picture
    save_picture(std::string(argv[1]) + "/05.svg", plot);
  }

  // The fast kernel keeps no weights, and yet any of them can be had: they are computed again from
  // q, k and each row's maximum and sum, exactly as the kernel used them.
  const Tensor q = random("q", 2048), k = random("k", 2048), v = random("v", 2048);
  Keep keep;
  attention(q, k, v);
  const Tensor row = keep.record.weights(0, 0, 1000, 1001, 0, 2048);
  const Tensor formula = slice(attention_steps(q, k, v).weights, 2, 1000, 1001);
  std::printf(say("row 1000 on demand: sums to %.4f, as the formula has it: %s\n",
                  "필요할 때 다시 계산한 1000번째 행: 합 %.4f, 공식과 같음: %s\n"),
              sum(row).item(), lesson::yes_or_no(worst_difference(row, formula) < 1e-6));
}
