// Lesson 5. Three ways to compute the same attention: the formula, in chunks, and in tiles (flash).
#include <cmath>
#include <cstdio>

#include "heed/inspect.h"
#include "heed/memory.h"
#include "heed/nn.h"
#include "heed/picture.h"

using namespace heed;

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
  LinePlot plot{.title = "Memory of one head", .x_title = "Tokens", .y_title = "MB"};
  plot.log_x = plot.log_y = plot.markers = true;
  plot.series = {{"reference", {}, {}}, {"chunked", {}, {}}, {"flash", {}, {}}};
  for (const int64_t length : {512, 1024, 2048}) {
    const Tensor q = random("q", length), k = random("k", length), v = random("v", length);
    const auto wide = [](const Tensor& x) { return x.to(DType::f64); };
    const Tensor truth = attention_steps(wide(q), wide(k), wide(v)).output;  // in 64 bits
    std::printf("%ld tokens; the matrix of one head has %.0f MB\n", length,
                attention_matrix_bytes(length, DType::f32) / (1 << 20));
    for (size_t i = 0; i < 3; ++i) {
      AttentionOptions options;
      options.kernel = kKernels[i].second;
      release_cached_memory();
      reset_peak_memory();
      const int64_t before = memory_stats().in_use;
      const Tensor output = attention(q, k, v, options);
      const double held = static_cast<double>(memory_stats().peak - before) / (1 << 20);
      std::printf("  %-9s holds %5.1f MB, within 0.00001 of the truth: %s\n", kKernels[i].first,
                  held, worst_difference(output, truth) < 1e-5 ? "yes" : "no");
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
  std::printf("row 1000 on demand: sums to %.4f, as the formula has it: %s\n", sum(row).item(),
              worst_difference(row, formula) < 1e-6 ? "yes" : "no");
}
