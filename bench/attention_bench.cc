// The fused attention: share of the machine's FMA peak, against the composed reference, memory, and
// Longformer's growth. Causal, one sequence, 12 heads of 64.
#include <algorithm>
#include <cstdio>

#include "alternate.h"
#include "heed/runtime.h"
#include "heed/tensor.h"
#include "heed/transformer.h"
#include "machine.h"

namespace {

using heed::AttentionKernel;
using heed::AttentionOptions;
using heed::Tensor;
using heed::bench::Contestant;

constexpr int64_t kHeads = 12;
constexpr int64_t kDepth = 64;

Tensor random_heads(int64_t length, uint64_t seed) {
  const Tensor x = Tensor::empty({1, kHeads, length, kDepth});
  heed::Random random(seed);
  float* values = x.data<float>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    values[i] = static_cast<float>(random.uniform() * 2 - 1);
  }
  return x;
}

struct Inputs {
  Tensor q, k, v, dout;
  explicit Inputs(int64_t length)
      : q(random_heads(length, 1)),
        k(random_heads(length, 2)),
        v(random_heads(length, 3)),
        dout(random_heads(length, 4)) {}

  void forward(AttentionKernel kernel) const {
    const heed::NoGrad no_grad;
    AttentionOptions options;
    options.position = heed::Causal{};
    options.kernel = kernel;
    attention(q, k, v, options);
  }
  void forward_backward(AttentionKernel kernel) const {
    Tensor leaf_q = q.detach().set_requires_grad(true);
    Tensor leaf_k = k.detach().set_requires_grad(true);
    Tensor leaf_v = v.detach().set_requires_grad(true);
    AttentionOptions options;
    options.position = heed::Causal{};
    options.kernel = kernel;
    heed::backward(attention(leaf_q, leaf_k, leaf_v, options), dout);
  }
};

/// Multiplications and additions that the causal mask leaves: two products there, seven with the
/// backward pass.
double operations(int64_t length) {
  const auto n = static_cast<double>(length);
  return 4.0 * kHeads * kDepth * n * (n + 1) / 2;
}

void share_of_peak(int64_t length) {
  const Inputs inputs(length);
  std::vector<Contestant> all;
  double spun = 0;
  all.push_back({"peak", [&] { spun = heed::bench::spin_all(); }});
  all.push_back({"forward", [&] { inputs.forward(AttentionKernel::flash); }});
  all.push_back({"both", [&] { inputs.forward_backward(AttentionKernel::flash); }});
  heed::bench::alternate(all, length > 4096 ? 3 : 7, 1);
  const double peak = spun / all[0].best();
  std::printf("T %6ld: forward %8.2f ms, %4.1f %% of peak; forward+backward %8.2f ms, %4.1f %%\n",
              static_cast<long>(length), all[1].median() * 1e3,
              100 * operations(length) / all[1].median() / peak, all[2].median() * 1e3,
              100 * 3.5 * operations(length) / all[2].median() / peak);
  std::fflush(stdout);
}

void against_reference(int64_t length) {
  const Inputs inputs(length);
  std::vector<Contestant> all;
  for (const AttentionKernel kernel : {AttentionKernel::flash, AttentionKernel::reference}) {
    all.push_back({"forward", [&inputs, kernel] { inputs.forward(kernel); }});
    all.push_back({"both", [&inputs, kernel] { inputs.forward_backward(kernel); }});
  }
  heed::bench::alternate(all, 3, 1);
  std::printf("T %6ld: flash is %.1f x the composed reference forward, %.1f x forward+backward\n",
              static_cast<long>(length), all[2].median() / all[0].median(),
              all[3].median() / all[1].median());
}

void extra_memory(int64_t length) {
  const Inputs inputs(length);
  const double tensor = static_cast<double>(inputs.q.bytes());
  heed::reset_peak_memory();
  const double before = static_cast<double>(heed::memory_stats().in_use);
  inputs.forward(AttentionKernel::flash);
  const double forward = static_cast<double>(heed::memory_stats().peak) - before - tensor;
  heed::reset_peak_memory();
  inputs.forward_backward(AttentionKernel::flash);
  const double both = static_cast<double>(heed::memory_stats().peak) - before - 4 * tensor;
  std::printf(
      "T %6ld: beside inputs, output and gradients %.1f MB forward, %.1f MB with backward\n",
      static_cast<long>(length), forward / 1e6, both / 1e6);
}

void longformer() {
  std::vector<Contestant> all;
  for (const int64_t length : {4096, 16384}) {
    heed::LongformerInputs in;
    in.q = random_heads(length, 1);
    in.k = random_heads(length, 2);
    in.v = random_heads(length, 3);
    in.window = 512;
    all.push_back({"longformer", [in] { heed::longformer_attention(in); }});
  }
  heed::bench::alternate(all, 5, 1);
  std::printf("Longformer, window 512: %.2f ms at 4096, %.2f ms at 16384: %.2f x linear growth\n",
              all[0].median() * 1e3, all[1].median() * 1e3, all[1].median() / all[0].median() / 4);
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t longest = argc > 1 ? std::atoll(argv[1]) : 16384;
  for (int64_t length = 1024; length <= longest; length *= 2) {
    share_of_peak(length);
  }
  against_reference(4096);
  extra_memory(16384);
  longformer();
  return 0;
}
