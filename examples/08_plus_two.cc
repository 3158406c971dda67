// Lesson 8. An encoder-decoder from nothing: five numbers in, each plus two out.
#include <cmath>
#include <cstdio>

#include "heed/inspect.h"
#include "heed/lessons.h"
#include "heed/models.h"
#include "heed/picture.h"
#include "heed/train.h"
#include "lesson.h"

using namespace heed;
using lesson::say;

namespace {

constexpr float kUnit = 100;  // numbers of 0 … 100 become 0 … 1

/// 64 examples of five numbers; the labels are what the decoder should say.
ModelInput batch_of(uint64_t step) {
  ModelInput input;
  input.features = Tensor::empty({64, 5, 1});
  input.labels = Tensor::empty({64, 5, 1});
  for (size_t i = 0; i < 64 * 5; ++i) {
    const NumberExample example = plus_two_example({}, 64 * step + i / 5);
    input.features.data<float>()[i] = static_cast<float>(example.input[i % 5]) / kUnit;
    input.labels.data<float>()[i] = static_cast<float>(example.target[i % 5]) / kUnit;
  }
  return input;
}

/// The decoder's numbers one after the other, each fed back for the next.
std::vector<float> predict(const Model& model, const Tensor& features) {
  std::vector<float> said{0};  // the start
  for (int64_t i = 0; i < 5; ++i) {
    ModelInput input;
    input.features = features;
    input.decoder_features = Tensor::from(said, {1, i + 1, 1});
    said.push_back(model.forward(input).logits.to_vector<float>().back());
  }
  return {said.begin() + 1, said.end()};
}

}  // namespace

int main(int argc, char** argv) {
  const auto model = create_model(
      R"({"model_type": "heed-regressor", "d_model": 32, "encoder_layers": 1, "decoder_layers": 1,
          "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
          "decoder_ffn_dim": 64, "dropout": 0})",
      1);
  constexpr int64_t kSteps = 1000;
  Optimizer optimizer(named_tensors(model->parameters()), {});
  const Schedule schedule{ScheduleKind::cosine, 1e-2, 50, kSteps, 0.0};
  for (int64_t step = 1; step <= kSteps; ++step) {
    const Tensor loss = model->forward(batch_of(static_cast<uint64_t>(step))).loss;
    backward(loss);
    optimizer.set_lr(schedule.lr(step));
    optimizer.step();
    optimizer.zero_grad();
    if (step == 1 || step == kSteps) {
      std::printf(say("step %4ld: off by %.1f\n", "스텝 %4ld: 오차 %.1f\n"), step,
                  kUnit * std::sqrt(loss.item()));
    }
  }
  const NoGrad no_grad;
  const Recorder recorder({.kind = "cross"});
  const Tensor numbers = Tensor::from<float>({10, 20, 30, 40, 50}, {1, 5, 1});
  for (const float number : predict(*model, numbers * (1.0 / kUnit))) {
    std::printf("%.1f\n", kUnit * number);
  }
  if (argc > 1) {  // a folder for the lesson's picture, of the pass that wrote the last number
    Heatmap map =
        lesson::heatmap(say("What each number written looks at", "써 낸 숫자마다 보는 곳"));
    map.panels_across = 4;
    for (const int64_t head : {0, 1, 2, 3}) {
      map.panels.push_back(
          {lesson::head(head), recorder.attentions().back().record.weights(0, head)});
    }
    map.row_labels = {"12", "22", "32", "42", "52"};
    map.column_labels = {"10", "20", "30", "40", "50"};
    save_picture(std::string(argv[1]) + "/08.svg", map);
  }
}
