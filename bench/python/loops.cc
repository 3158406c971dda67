// The C++ side of figures.py: loops CALLS prints the nanoseconds of small ops as JSON; loops steps
// does a step of the training loop of a small GPT for every line of stdin and prints its seconds.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "heed/ops.h"
#include "heed/train.h"
#include "heed/transformer.h"

using namespace heed;

namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Nanoseconds per call; the best of several rounds.
template <class Fn>
double call_time(int calls, const Fn& fn) {
  double best = 1e9;
  for (int round = 0; round < 7; ++round) {
    const double start = seconds();
    for (int i = 0; i < calls; ++i) {
      fn();
    }
    best = std::min(best, (seconds() - start) / calls);
  }
  return 1e9 * best;
}

struct Gpt {
  static constexpr int64_t kVocabulary = 96, kWidth = 128, kLength = 128, kBatch = 16;
  Embedding tokens, positions;
  std::vector<TransformerBlock> blocks;
  Norm norm;
  Linear head;
  explicit Gpt(const Scope& scope)
      : tokens(scope / "tokens", kVocabulary, kWidth),
        positions(scope / "positions", kLength, kWidth),
        norm(scope / "norm", kWidth, 1e-5),
        head(scope / "head", kWidth, kVocabulary) {
    for (int64_t i = 0; i < 4; ++i) {
      blocks.emplace_back(
          scope / "blocks" / i,
          TransformerOptions{.hidden_size = kWidth, .num_heads = 4, .causal = true});
    }
  }
  Tensor operator()(const Tensor& ids) const {
    Tensor x = tokens(ids) + positions(arange(kLength));
    for (const TransformerBlock& block : blocks) {
      x = block(x, {.training = true});
    }
    return head(norm(x));
  }
};

void time_calls(int calls) {
  const Tensor a = randn({4}), b = randn({4}), m = randn({4, 4});
  std::printf(
      "{\"add\": %.1f, \"mul_scalar\": %.1f, \"exp\": %.1f, \"matmul\": %.1f, \"reshape\": %.1f}\n",
      call_time(calls, [&] { add(a, b); }), call_time(calls, [&] { mul(a, 2.0); }),
      call_time(calls, [&] { exp(a); }), call_time(calls, [&] { matmul(m, m); }),
      call_time(calls, [&] { reshape(m, {16}); }));
}

void time_steps() {
  const Scope scope = Scope::fresh(1);
  const Gpt model(scope);
  Optimizer optimizer(scope.parameters(), {.lr = 1e-3, .weight_decay = 0.01});
  Tensor ids = Tensor::empty({Gpt::kBatch, Gpt::kLength}, DType::i64);
  for (int step = 0; std::getchar() != EOF; ++step) {
    for (int64_t i = 0; i < ids.numel(); ++i) {
      ids.data<int64_t>()[i] = (i * 7 + step % 4) % Gpt::kVocabulary;
    }
    const double start = seconds();
    const Tensor loss =
        cross_entropy(reshape(model(ids), {-1, Gpt::kVocabulary}), reshape(ids, {-1}));
    optimizer.zero_grad();
    backward(loss);
    optimizer.step();
    loss.item();
    std::printf("%.7f\n", seconds() - start);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "steps") {
    time_steps();
  } else {
    time_calls(argc > 1 ? std::atoi(argv[1]) : 20000);
  }
}
