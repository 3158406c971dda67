// Products with interleaved quantised weights, by type and number of rows: whole-number operations
// per second on all threads, and the weights' bytes per second. One row reads memory, many rows
// depend on the micro-kernel.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "alternate.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "kernels/interleave.h"
#include "kernels/quantized_gemm.h"
#include "ops/quantized.h"

namespace {

using namespace heed;
using kernels::Element;

constexpr int64_t kOutputs = 5632;
constexpr int64_t kInputs = 2048;
constexpr int kRounds = 9;

}  // namespace

int main(int count, char** words) {
  if (count > 1) {
    set_thread_count(std::atoi(words[1]));
  }
  if (!kernels::multiplies_interleaved()) {
    std::puts("this processor has no kernels for interleaved weights");
    return 0;
  }
  const Tensor plain = randn({kOutputs, kInputs}, {.seed = 1});
  std::printf("%-6s %5s %10s %8s %8s\n", "type", "rows", "ms", "GOP/s", "GB/s");
  for (const DType type : {DType::q8_0, DType::q4_0, DType::q4_k, DType::q5_k, DType::q6_k}) {
    const Tensor w = quantize(plain, type);
    const Element element = quantized_element(type);
    const int64_t bytes = kernels::interleaved_bytes(element, kOutputs, kInputs);
    const Tensor copy = Tensor::empty({bytes}, DType::u8);
    kernels::interleave(element, w.raw(), kOutputs, kInputs, copy.raw());
    const kernels::Matrix weights{nullptr, element, 1, kInputs, copy.raw()};
    for (const int64_t rows : {1, 4, 16, 64, 512}) {
      const Tensor x = randn({rows, kInputs}, {.seed = 2});
      Tensor y = Tensor::empty({rows, kOutputs});
      std::vector<bench::Contestant> one = {{"", [&] {
                                               kernels::interleaved_gemm(
                                                   {.m = rows,
                                                    .n = kOutputs,
                                                    .k = kInputs,
                                                    .a = {x.raw(), Element::f32, kInputs, 1},
                                                    .b = weights,
                                                    .c = y.raw(),
                                                    .c_type = Element::f32,
                                                    .c_stride = kOutputs});
                                             }}};
      bench::alternate(one, kRounds, rows < 64 ? 8 : 1);
      const double seconds = one[0].best();
      std::printf("%-6s %5ld %10.3f %8.0f %8.1f\n", std::string(name_of(type)).c_str(), rows,
                  seconds * 1e3, 2e-9 * static_cast<double>(rows * kOutputs * kInputs) / seconds,
                  1e-9 * static_cast<double>(bytes) / seconds);
    }
  }
}
