// A 4-layer MLP (1024 wide, batch 1024): a training step against its matrix products alone, its
// page faults, and its speed beside a foreign busy loop on one core.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "alternate.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "heed/train.h"
#include "kernels/gemm.h"

namespace {

using namespace heed;

constexpr int64_t kWidth = 1024;
constexpr int64_t kBatch = 1024;
constexpr int kLayers = 4;

Tensor random_tensor(const Shape& shape, uint64_t seed) {
  Tensor x = Tensor::empty(shape);
  Random random(seed);
  for (int64_t i = 0; i < x.numel(); ++i) {
    x.data<float>()[i] = static_cast<float>(random.uniform() - 0.5) * 0.06f;
  }
  return x;
}

int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

/// A child process that spins on core 0 until it is killed.
pid_t start_busy_loop() {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(0, &core);
    sched_setaffinity(0, sizeof core, &core);
    while (true) {
      asm volatile("");
    }
  }
  return child;
}

}  // namespace

int main() {
  std::vector<NamedTensor> parameters;
  std::vector<Tensor> weights, biases;
  for (int layer = 0; layer < kLayers; ++layer) {
    weights.push_back(random_tensor({kWidth, kWidth}, static_cast<uint64_t>(layer)));
    biases.push_back(random_tensor({kWidth}, static_cast<uint64_t>(100 + layer)));
    weights.back().set_requires_grad(true);
    biases.back().set_requires_grad(true);
    parameters.emplace_back("weight" + std::to_string(layer), weights.back());
    parameters.emplace_back("bias" + std::to_string(layer), biases.back());
  }
  Optimizer optimizer(parameters, {.kind = OptimizerKind::adamw, .lr = 1e-4});
  const Tensor x = random_tensor({kBatch, kWidth}, 50);
  const Tensor target = random_tensor({kBatch, kWidth}, 51);
  auto step = [&] {
    Tensor h = x;
    for (size_t layer = 0; layer < weights.size(); ++layer) {
      const bool last = layer + 1 == weights.size();
      h = linear(h, weights[layer], biases[layer],
                 {.activation = last ? Activation::none : Activation::gelu});
    }
    backward(mse(h, target));
    optimizer.step();
    optimizer.zero_grad();
  };
  // The same products without anything else: forward and dW for all layers, dx for all but the
  // first.
  const Tensor out = Tensor::empty({kBatch, kWidth});
  auto products = [&] {
    const kernels::Matrix rows{x.raw(), kernels::Element::f32, kWidth, 1};
    const kernels::Matrix columns{x.raw(), kernels::Element::f32, 1, kWidth};
    for (int i = 0; i < 3 * kLayers - 1; ++i) {
      kernels::gemm({.m = kBatch,
                     .n = kWidth,
                     .k = kWidth,
                     .a = i % 3 == 2 ? columns : rows,
                     .b = i % 3 == 0 ? columns : rows,
                     .c = out.raw(),
                     .c_stride = kWidth});
    }
  };
  std::vector<bench::Contestant> all{{"step", step}, {"products", products}};
  bench::alternate(all, 15, 2);
  const double alone = all[0].median();
  std::printf("MLP step %.1f ms, its products %.1f ms: products are %.0f %% of the step\n",
              alone * 1e3, all[1].median() * 1e3, 100 * all[1].median() / alone);
  const int64_t before = page_faults();
  constexpr int kSteps = 10;
  for (int i = 0; i < kSteps; ++i) {
    step();
  }
  std::printf("page faults a step: %.1f\n", static_cast<double>(page_faults() - before) / kSteps);
  const pid_t busy = start_busy_loop();
  std::vector<bench::Contestant> disturbed{{"step", step}};
  bench::alternate(disturbed, 9, 4);
  kill(busy, SIGKILL);
  waitpid(busy, nullptr, 0);
  std::printf("beside a busy loop on one core: %.1f ms, %.0f %% of the speed\n",
              disturbed[0].median() * 1e3, 100 * alone / disturbed[0].median());
}
