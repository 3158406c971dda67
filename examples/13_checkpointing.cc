// Lesson 13. Training in less memory: compute again instead of keeping, and keep fewer bits.
#include <cstdio>
#include <cstring>

#include "heed/models.h"
#include "heed/ops.h"
#include "heed/picture.h"
#include "heed/runtime.h"
#include "lesson.h"
using namespace heed;
using lesson::say;

namespace {

Tensor random_tokens() {
  Random random(1);
  Tensor ids = Tensor::empty({4, 128}, DType::i64);
  for (int64_t i = 0; i < ids.numel(); ++i) {
    ids.data<int64_t>()[i] = static_cast<int64_t>(random.below(256));
  }
  return ids;
}

struct Run {
  double loss = 0, megabytes = 0;
  std::vector<Tensor> gradients;
};

Run run(int64_t layers, bool recompute, DType type) {
  const std::string config = R"({"model_type": "gpt2", "n_embd": 128, "n_head": 4,
      "vocab_size": 256, "n_positions": 128, "n_layer": )";  // dropout is GPT-2's, 0.1
  const auto model = create_model(config + std::to_string(layers) + "}", 1);
  model->set_gradient_checkpointing(recompute);
  ModelInput input{.input_ids = random_tokens(), .labels = random_tokens()};
  input.training = true;  // dropout on: its masks must come out the same the second time
  input.want_logits = false;
  manual_seed(7);
  release_cached_memory();
  reset_peak_memory();
  const int64_t before = memory_stats().in_use;
  const ActivationScope activations(type);  // weights, gradients and sums stay in f32
  const Tensor loss = model->forward(input).loss;
  backward(loss);
  Run result{.loss = loss.item()};
  result.megabytes = static_cast<double>(memory_stats().peak - before) / (1 << 20);
  for (const Parameter& parameter : model->parameters()) {
    result.gradients.push_back(parameter.tensor.grad().contiguous());
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  const Run plain = run(8, false, DType::f32), saving = run(8, true, DType::f32);
  const Run half = run(8, false, DType::bf16), both = run(8, true, DType::bf16);
  std::printf(say("everything kept: %.1f MiB, loss %.2f\n", "모두 보관: %.1f MiB, 손실 %.2f\n"),
              plain.megabytes, plain.loss);
  std::printf(
      say("only the blocks' inputs: %.1f MiB, loss %.2f\n", "블록의 입력만: %.1f MiB, 손실 %.2f\n"),
      saving.megabytes, saving.loss);
  std::printf(
      say("everything, in bf16: %.1f MiB, loss %.2f\n", "모두 bf16으로: %.1f MiB, 손실 %.2f\n"),
      half.megabytes, half.loss);
  std::printf(say("both: %.1f MiB, loss %.2f\n", "둘 다: %.1f MiB, 손실 %.2f\n"), both.megabytes,
              both.loss);
  bool same = plain.loss == saving.loss;
  for (size_t i = 0; i < plain.gradients.size(); ++i) {
    const Tensor &a = plain.gradients[i], &b = saving.gradients[i];
    same = same && std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.bytes())) == 0;
  }
  std::printf(say("computed again, loss and all %zu gradients are the same to the bit: %s\n",
                  "다시 계산해도 손실과 기울기 %zu개가 비트까지 같음: %s\n"),
              plain.gradients.size(), lesson::yes_or_no(same));
  if (argc > 1) {  // a folder for the lesson's picture
    LinePlot plot{.title = say("Memory of a training step", "학습 스텝의 메모리"),
                  .x_title = say("Blocks", "블록"),
                  .y_title = "MiB"};
    plot.series = {{say("everything kept", "모두 보관"), {}, {}},
                   {say("in bf16", "bf16으로"), {}, {}},
                   {say("inputs only", "입력만"), {}, {}}};
    for (const int64_t layers : {2, 4, 8, 16}) {
      for (size_t i = 0; i < 3; ++i) {
        const Run step = run(layers, i == 2, i == 1 ? DType::bf16 : DType::f32);
        plot.series[i].x.push_back(static_cast<double>(layers));
        plot.series[i].y.push_back(step.megabytes);
      }
    }
    save_picture(std::string(argv[1]) + "/13.svg", plot);
  }
}
