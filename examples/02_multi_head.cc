// Lesson 2. Why more than one head: a word that must look at two places at once.
//
// Every symbol of a ring must name the one before it and the one after it. One head only ever adds
// up what it sees, and cannot say which is which. Two heads look at one each.
#include <cstdio>

#include "heed/inspect.h"
#include "heed/nn.h"
#include "heed/picture.h"
#include "heed/train.h"
#include "lesson.h"

using namespace heed;
using lesson::say;

namespace {

constexpr int64_t kSymbols = 10, kLength = 8, kWidth = 32;

struct Net {
  Embedding tokens, places;
  MultiHeadAttention attention;
  Linear before, after;

  Net(const Scope& scope, int64_t heads)
      : tokens(scope / "tokens", kSymbols, kWidth, Init::normal(1.0)),
        places(scope / "places", kLength, kWidth, Init::normal(1.0)),
        attention(Linear(scope / "qkv", kWidth, 3 * kWidth), Linear(scope / "out", kWidth, kWidth),
                  {.num_heads = heads, .head_dim = kWidth / heads}),
        before(scope / "before", kWidth, kSymbols),
        after(scope / "after", kWidth, kSymbols) {}

  Tensor operator()(const Tensor& ids) const {
    const Pass pass{.layout = Layout::equal(64, kLength)};
    const Tensor words =
        reshape(tokens(ids), {64, kLength, kWidth}) + places(Tensor::arange(kLength));
    return attention(reshape(words, {-1, kWidth}), pass, 0);
  }
};

/// 64 rings of random symbols, each rotated by `shift` positions.
Tensor rings(uint64_t stream, int64_t shift) {
  Random random(1, stream);
  Tensor ids = Tensor::empty({64 * kLength}, DType::i64);
  for (int64_t i = 0; i < ids.numel(); ++i) {
    const int64_t place = i / kLength * kLength + (i + kLength + shift) % kLength;
    ids.data<int64_t>()[place] = static_cast<int64_t>(random.below(kSymbols));
  }
  return ids;
}

}  // namespace

int main(int argc, char** argv) {
  for (const int64_t heads : {1, 2, 4, 8}) {
    const Scope scope = Scope::fresh(7);
    const Net net(scope, heads);
    Optimizer optimizer(named_tensors(scope.parameters()), {.lr = 1e-2});
    for (uint64_t step = 1; step <= 250; ++step) {
      const Tensor y = net(rings(step, 0));
      backward(cross_entropy(net.before(y), rings(step, 1)) +
               cross_entropy(net.after(y), rings(step, -1)));
      optimizer.step();
      optimizer.zero_grad();
    }
    const Recorder recorder;
    const Tensor y = net(rings(0, 0)), guess = argmax(net.before(y), 1), truth = rings(0, 1);
    int right = 0;
    for (int64_t i = 0; i < guess.numel(); ++i) {
      right += guess.data<int64_t>()[i] == truth.data<int64_t>()[i] ? 1 : 0;
    }
    std::printf(say("heads: %ld, head_dim %2ld; named right: %d of 512\n",
                    "헤드 %ld개, head_dim %2ld: 맞힌 것 %d개 (512개 가운데)\n"),
                heads, kWidth / heads, right);
    if (heads == 2 && argc > 1) {  // a folder for the lesson's picture
      const AttentionRecord& seen = recorder.attentions()[0].record;
      Heatmap map = lesson::heatmap(say("Two heads, each looks one way", "한 방향씩 보는 두 헤드"));
      map.panels = {{lesson::head(0), seen.weights(0, 0)}, {lesson::head(1), seen.weights(0, 1)}};
      save_picture(std::string(argv[1]) + "/02.svg", map);
    }
  }
}
