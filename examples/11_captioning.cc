// Lesson 11. Captioning: a decoder that looks at the regions of a picture while it writes.
#include <cstdio>

#include "heed/data.h"
#include "heed/inspect.h"
#include "heed/lessons.h"
#include "heed/models.h"
#include "heed/picture.h"
#include "heed/train.h"
#include "lesson.h"

using namespace heed;
using lesson::say;

namespace {
/// 16 regions: the pixels of each, and which it is, as pixels alone do not tell left from right.
FeatureData make_data(uint64_t count, bool held_out) {
  FeatureData data;
  std::vector<Tensor> images;
  Tensor place = Tensor::zeros({1, 16, 16});
  place.alias({16}, {17}, 0).fill(1.0);  // the diagonal
  for (uint64_t i = 0; i < count; ++i) {
    const ShapesExample example = shapes_example({.held_out = held_out}, i);
    data.captions.push_back(example.caption);
    const Tensor pixels = example.pixels.to(DType::f32) * (2.0 / 255) - 1.0;
    images.push_back(
        concat({unfold_patches(permute(unsqueeze(pixels, 0), {0, 3, 1, 2}), 8, 8), place}, 2));
  }
  data.features = concat(images, 0);
  return data;
}

}  // namespace

int main(int argc, char** argv) {
  const FeatureData data = make_data(4000, false), fresh = make_data(100, true);
  const std::vector<std::string_view> views(data.captions.begin(), data.captions.end());
  const Tokenizer tokenizer = train_tokenizer(views, {.kind = TokenizerKind::wordpiece});
  const SequenceTokens marks{.start = *tokenizer.special().cls, .end = *tokenizer.special().sep};
  const auto learn = make_caption_loader(data, tokenize_all(data.captions, tokenizer), marks, {});
  const TokenShard truth = tokenize_all(fresh.captions, tokenizer);
  const auto tests = make_caption_loader(fresh, truth, marks, {.batch = 100, .shuffle = false});
  const std::string config = R"({"model_type": "heed-captioner", "d_model": 64, "dropout": 0,
      "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 128,
      "feature_size": 208, "vocab_size": )";
  const auto model = create_model(config + std::to_string(tokenizer.vocab_size()) + "}", 1);
  const auto run = [&](const Batch& batch) {
    return model->forward({.decoder_input_ids = batch.decoder_input_ids,
                           .features = batch.features,
                           .labels = batch.labels});
  };
  Optimizer optimizer(named_tensors(model->parameters()), {.lr = 1.5e-3});
  for (int step = 0; step < 400; ++step) {
    backward(run(learn->next()).loss);
    optimizer.step();
    optimizer.zero_grad();
  }
  const NoGrad no_grad;
  const Recorder recorder({.kind = "cross", .layer = 1});
  const Batch batch = tests->next();
  const Tensor guess = argmax(run(batch).logits, 2);
  int right = 0, all = 0;
  for (int64_t i = 0; i < guess.numel(); ++i) {
    const int64_t label = batch.labels.data<int64_t>()[i];
    all += label > marks.end;
    right += label > marks.end && label == guess.data<int64_t>()[i];
  }
  std::printf(say("words of 100 new captions that come out right: %d %%\n",
                  "새 설명 100개에서 맞힌 단어: %d %%\n"),
              100 * right / all);
  if (argc > 1) {  // a folder for the lesson's picture
    const ShapesExample shown = shapes_example({.held_out = true}, 0);
    PatchPicture picture{.title = shown.caption, .image = shown.pixels};
    for (int64_t t = 0; t < batch.labels.size(1); ++t) {
      const auto label = static_cast<TokenId>(batch.labels.data<int64_t>()[t]);
      const Tensor weights = mean(recorder.attentions()[0].record.all_weights(), 1);  // of heads
      if (label > marks.end) {
        picture.panels.push_back({tokenizer.id_to_token(label),
                                  reshape(slice(slice(weights, 0, 0, 1), 1, t, t + 1), {4, 4})});
      }
    }
    save_picture(std::string(argv[1]) + "/11.svg", picture);
  }
}
