// Lesson 4. The causal mask, and what happens when it is taken away.
#include <cmath>
#include <cstdio>
#include <iostream>

#include "heed/attention.h"
#include "heed/models.h"
#include "heed/picture.h"
#include "heed/train.h"
#include "lesson.h"

using namespace heed;
using lesson::say;

namespace {

/// Loss of a small model that learns to name the next of random digits, after 150 steps.
double loss_on_noise(bool causal) {
  const std::string config = R"({"model_type": "heed-encoder", "vocab_size": 10, "d_model": 32,
      "max_position_embeddings": 16, "encoder_layers": 1, "encoder_attention_heads": 2,
      "encoder_ffn_dim": 64, "dropout": 0, "head": )";
  const auto model = create_model(config + (causal ? "\"lm\"}" : "\"mlm\"}"), 1);
  Optimizer optimizer(named_tensors(model->parameters()), {.lr = 1e-2});
  double loss = 0;
  for (uint64_t step = 0; step < 150; ++step) {
    Random random(1, step);
    Tensor digits = Tensor::empty({64, 8}, DType::i64);
    for (int64_t i = 0; i < digits.numel(); ++i) {
      digits.data<int64_t>()[i] = static_cast<int64_t>(random.below(10));
    }
    ModelInput input;  // the causal head compares each place with the next label itself
    input.input_ids = causal ? digits : slice(digits, 1, 0, 7);
    input.labels = causal ? digits : slice(digits, 1, 1, 8);
    const Tensor now = model->forward(input).loss;
    loss = now.item();
    backward(now);
    optimizer.step();
    optimizer.zero_grad();
  }
  return loss;
}

}  // namespace

int main(int argc, char** argv) {
  const Scope scope = Scope::fresh(1);
  const auto random = [&](const char* name) {
    return scope.buffer(name, {1, 1, 4, 8}, Init::normal(1.0));
  };
  const Tensor q = random("q"), k = random("k"), v = random("v");
  AttentionOptions masked;
  masked.position = Causal{};
  Heatmap map = lesson::heatmap(say("Who may look at whom", "누가 누구를 볼 수 있는가"));
  map.panels = {{say("with the mask", "마스크 있음"),
                 reshape(attention_steps(q, k, v, masked).weights, {4, 4})},
                {say("without", "마스크 없음"), reshape(attention_steps(q, k, v).weights, {4, 4})}};
  map.row_labels = map.column_labels = {"I", "like", "green", "tea"};
  std::cout << to_terminal(map) << "\n";
  if (argc > 1) {  // a folder for the lesson's picture
    save_picture(std::string(argv[1]) + "/04.svg", map);
  }

  // Spoil the last word. With the mask, nobody before it can know.
  const Tensor other_k = k.clone(), other_v = v.clone();
  std::fill_n(other_k.data<float>() + 24, 8, NAN);
  std::fill_n(other_v.data<float>() + 24, 8, NAN);
  for (const bool causal : {true, false}) {
    const AttentionOptions options = causal ? masked : AttentionOptions{};
    const Tensor before = attention(q, k, v, options);
    const Tensor after = attention(q, other_k, other_v, options);
    int same = 0;
    for (int64_t i = 0; i < 24; ++i) {  // the first three words, to the bit
      same += before.data<float>()[i] == after.data<float>()[i] ? 1 : 0;
    }
    std::printf(say("the last word is NaN, %s: %d of the 24 numbers before it stay as they were\n",
                    "마지막 단어가 NaN, %s: 그 앞의 숫자 %d개가 그대로입니다 (24개 가운데)\n"),
                causal ? say("with the mask", "마스크 있음") : say("without", "마스크 없음"), same);
  }
  // Random digits cannot be predicted: nothing honest gets below ln 10 = 2.303.
  std::printf(say("next of random digits: loss %.2f with the mask\n",
                  "무작위 숫자의 다음 숫자: 마스크가 있으면 손실 %.2f\n"),
              loss_on_noise(true));
  std::printf(say("next of random digits: loss %.2f without it: the answer is read\n",
                  "무작위 숫자의 다음 숫자: 마스크가 없으면 손실 %.2f, 답을 미리 봅니다\n"),
              loss_on_noise(false));
}
