// Lesson 9. Attention of 2015 and of 2017 on the same task: reading seven letters backwards.
//
// Bahdanau's decoder is an LSTM that attends to the encoder's states once per step, the Transformer
// with several heads at all positions at once. Both learn to look where the letter is.
#include <cstdio>

#include "heed/inspect.h"
#include "heed/models.h"
#include "heed/picture.h"
#include "heed/train.h"
#include "lesson.h"
using namespace heed;
using lesson::say;

namespace {

constexpr int64_t kLetters = 7, kFirst = 2, kVocabulary = kFirst + 8;  // 0 padding, 1 start

ModelInput batch_of(uint64_t stream) {
  Random random(1, stream);
  ModelInput input;
  input.input_ids = Tensor::empty({64, kLetters}, DType::i64);
  input.labels = Tensor::empty({64, kLetters}, DType::i64);
  for (int64_t i = 0; i < 64 * kLetters; ++i) {
    const int64_t mirrored = i / kLetters * kLetters + kLetters - 1 - i % kLetters;
    const auto letter = kFirst + static_cast<int64_t>(random.below(kVocabulary - kFirst));
    input.input_ids.data<int64_t>()[i] = input.labels.data<int64_t>()[mirrored] = letter;
  }
  return input;
}

void learn(const char* name, const std::string& config, double rate, const std::string& picture) {
  const auto model =
      create_model(R"({"vocab_size": 10, "decoder_start_token_id": 1, "dropout": 0, )" + config, 1);
  constexpr int64_t kSteps = 400;
  Optimizer optimizer(named_tensors(model->parameters()), {});
  const Schedule schedule{ScheduleKind::cosine, rate, 40, kSteps, 0.0};
  for (int64_t step = 1; step <= kSteps; ++step) {
    backward(model->forward(batch_of(static_cast<uint64_t>(step))).loss);
    optimizer.set_lr(schedule.lr(step));
    optimizer.step(1 / std::max(optimizer.grad_norm(), 1.0));  // gradients no longer than 1
    optimizer.zero_grad();
  }
  const NoGrad no_grad;
  const Recorder recorder({.kind = "cross"});
  const ModelInput fresh = batch_of(0);
  const Tensor guess = argmax(model->forward(fresh).logits, 2);
  int right = 0;
  for (int64_t i = 0; i < guess.numel(); ++i) {
    right += guess.data<int64_t>()[i] == fresh.labels.data<int64_t>()[i] ? 1 : 0;
  }
  std::printf(say("%s: %d of 448 new letters right\n", "%s: 새 글자 %d개를 맞힘 (448개 가운데)\n"),
              name, right);
  // Where each step looks most: at the letter it has to write, from the end to the beginning.
  const RecordedAttention& seen = recorder.attentions().back();
  Heatmap map = lesson::heatmap(name);
  map.row_title = say("Step", "스텝");
  map.column_title = say("Letter", "글자");
  for (int64_t head = 0; head < seen.heads(); ++head) {
    map.panels.push_back({lesson::head(head), seen.record.weights(0, head)});
    int there = 0;
    for (int64_t i = 0; i < guess.numel(); ++i) {
      const auto attended = top_attended(seen.record.weights(i / kLetters, head), 1);
      there += attended[i % kLetters][0].key == kLetters - 1 - i % kLetters ? 1 : 0;
    }
    std::printf(say("  head %ld looks at the letter to write in %d of 448 steps\n",
                    "  헤드 %ld: 써야 할 글자를 %d번 봄 (448스텝 가운데)\n"),
                head, there);
  }
  if (!picture.empty()) {
    save_picture(picture, map);
  }
}

}  // namespace

int main(int argc, char** argv) {
  learn(say("LSTM with Bahdanau's attention", "바다나우 어텐션을 쓴 LSTM"),
        R"("model_type": "heed-rnn-seq2seq", "attention": "bahdanau", "d_model": 32,
           "hidden_size": 64})",
        1e-2, argc > 1 ? argv[1] + std::string("/09-lstm.svg") : "");
  learn(say("Transformer", "트랜스포머"),
        R"("model_type": "heed-seq2seq", "d_model": 32, "encoder_layers": 1,
           "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
           "encoder_ffn_dim": 64, "decoder_ffn_dim": 64})",
        5e-3, argc > 1 ? argv[1] + std::string("/09-transformer.svg") : "");
}
