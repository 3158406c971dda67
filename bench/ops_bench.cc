// Ops on arrays beyond the last cache, as a fraction of the memory bandwidth that a copy or a triad
// reaches in the same run. Goal: 80 %.

#include <cstdio>

#include "alternate.h"
#include "base/parallel.h"
#include "heed/ops.h"
#include "heed/tensor.h"
#include "heed/train.h"

namespace {

using heed::Tensor;

constexpr int64_t kRows = 16384;
constexpr int64_t kWidth = 1024;
constexpr int64_t kCount = kRows * kWidth;  // 64 MiB of f32 an array

Tensor filled(const heed::Shape& shape) {
  Tensor tensor = Tensor::empty(shape);
  float* values = tensor.data<float>();
  uint32_t word = 1;
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    word = word * 1664525u + 1013904223u;
    values[i] = static_cast<float>(word >> 8) * 0x1.0p-23f - 1.0f;  // [-1, 1)
  }
  return tensor;
}

/// STREAM's scale: 8 bytes per element. Not memcpy, which bypasses the caches where the ops cannot.
void copy(float* y, const float* x, float scale) {
  heed::parallel_ranges(kCount, 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      y[i] = scale * x[i];
    }
  });
}

/// STREAM's triad: 12 bytes per element.
void triad(float* y, const float* x, const float* z, float scale) {
  heed::parallel_ranges(kCount, 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      y[i] = x[i] + scale * z[i];
    }
  });
}

struct Op {
  const char* name;
  double bytes;  // that it must move for each element
  bool like_triad;
  std::function<void()> run;
};

std::function<void()> gradient_of(Tensor& x, const Tensor& dy, const Tensor& y) {
  return [&x, dy, y] {
    x.set_grad(Tensor());
    heed::backward(y, dy, /*keep_history=*/true);
  };
}

}  // namespace

int main() {
  const Tensor x = filled({kRows, kWidth});
  const Tensor z = filled({kRows, kWidth});
  const Tensor y = Tensor::zeros({kRows, kWidth});
  const Tensor heads = x.alias({16, 1024, 16, 64}, heed::contiguous_strides({16, 1024, 16, 64}), 0);
  Tensor leaf = x.clone().set_requires_grad(true);
  Tensor weight = filled({kWidth}).set_requires_grad(true);
  Tensor bias = filled({kWidth}).set_requires_grad(true);
  const Tensor softmaxed = heed::softmax(leaf);
  const Tensor normed = heed::layer_norm(leaf, weight, bias, 1e-5);
  const Tensor curved = heed::gelu(leaf);
  Tensor parameter = x.clone().set_requires_grad(true);
  parameter.set_grad(z);
  heed::Optimizer adamw({{"weight", parameter}}, {.weight_decay = 0.1});
  const std::vector<Op> ops{
      {"softmax", 8, false, [&] { heed::softmax(x); }},
      {"softmax gradient", 12, true, gradient_of(leaf, z, softmaxed)},
      {"layer_norm", 8, false, [&] { heed::layer_norm(x, weight, bias, 1e-5); }},
      {"layer_norm gradient", 12, true, gradient_of(leaf, z, normed)},
      {"gelu", 8, false, [&] { heed::gelu(x); }},
      {"gelu gradient", 12, true, gradient_of(leaf, z, curved)},
      {"gelu_tanh", 8, false, [&] { heed::gelu_tanh(x); }},
      {"dropout", 8, false, [&] { heed::dropout(x, 0.1, true); }},
      {"add", 12, true, [&] { heed::add(x, z); }},
      {"AdamW", 28, true, [&] { adamw.step(); }},
      {"split heads", 8, false,
       [&] {
         heed::permute(heads, {0, 2, 1, 3}).contiguous();
       }},
  };
  std::printf("%d threads\n", heed::thread_count());
  for (const Op& op : ops) {
    std::vector<heed::bench::Contestant> both{
        {op.name, op.run}, {op.like_triad ? "triad" : "copy", [&] {
                              if (op.like_triad) {
                                triad(y.data<float>(), x.data<float>(), z.data<float>(), 3.0f);
                              } else {
                                copy(y.data<float>(), x.data<float>(), 3.0f);
                              }
                            }}};
    heed::bench::alternate(both, 15);
    const double count = static_cast<double>(kCount) / 1e9;
    const double rate = op.bytes * count / both[0].median();
    const double reference = (op.like_triad ? 12.0 : 8.0) * count / both[1].median();
    std::printf("%-20s %6.1f GB/s   %-5s %6.1f GB/s   share %.2f\n", op.name, rate,
                both[1].name.c_str(), reference, rate / reference);
    std::fflush(stdout);
  }
}
