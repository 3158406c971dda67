// Lesson 10. Sentiment in two languages: a small encoder, the mean of its words, a classifier.
#include <cstdio>

#include "heed/data.h"
#include "heed/inspect.h"
#include "heed/models.h"
#include "heed/picture.h"
#include "heed/train.h"
#include "lesson.h"

using namespace heed;
using lesson::say;

namespace {
using Words = std::vector<std::string>;
}  // namespace

int main(int argc, char** argv) {
  // Reviews by rule: what it is about, maybe a "not", a judgement. "Not" reverses the judgement.
  Words texts;
  std::vector<std::vector<TokenId>> labels;
  const auto add = [&](const Words& about, const Words& verbs, int32_t kind, const Words& words) {
    for (const std::string& subject : about) {
      for (const std::string& word : words) {
        texts.insert(texts.end(), {subject + verbs[0] + word, subject + verbs[1] + word});
        labels.insert(labels.end(), {{kind}, {2 - kind}});
      }
    }
  };
  const Words subjects{"the film", "this book", "the food", "the hotel", "the song"};
  add(subjects, {" was ", " was not "}, 0, {"awful", "boring", "terrible"});
  add(subjects, {" was ", " was not "}, 1, {"long", "new"});
  add(subjects, {" was ", " was not "}, 2, {"great", "lovely", "wonderful"});
  const Words topics{"이 영화는", "그 책은", "음식은", "호텔은", "노래는"};
  add(topics, {" ", " 안 "}, 0, {"지루하다", "나쁘다", "싫다"});
  add(topics, {" ", " 안 "}, 1, {"길다", "새롭다"});
  add(topics, {" ", " 안 "}, 2, {"좋다", "즐겁다", "아름답다"});
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const Tokenizer tokenizer = train_tokenizer(views, {.kind = TokenizerKind::wordpiece});
  const LabelledData data{tokenize_all(texts, tokenizer), TokenShard::from(labels), {}};
  // A fifth of the reviews is kept back: their words are known, the sentences are new.
  LoaderOptions options{.batch = 32, .part = Part::train, .validation = 0.2};
  const auto learn = make_class_loader(data, {}, options);
  options.part = Part::validation;
  const Batch fresh = make_class_loader(data, {}, options)->next();
  const std::string config = R"({"model_type": "heed-sentiment", "max_position_embeddings": 32,
      "d_model": 32, "encoder_layers": 1, "encoder_attention_heads": 4, "encoder_ffn_dim": 64,
      "dropout": 0, "vocab_size": )";
  const auto model = create_model(config + std::to_string(tokenizer.vocab_size()) + "}", 1);
  const auto logits_of = [&](const Batch& batch) {
    return model->forward({.input_ids = batch.input_ids, .attention_mask = batch.attention_mask})
        .logits;
  };
  Optimizer optimizer(named_tensors(model->parameters()), {.lr = 3e-3});
  for (int step = 0; step < 150; ++step) {
    const Batch batch = learn->next();
    backward(cross_entropy(logits_of(batch), batch.labels));
    optimizer.step();
    optimizer.zero_grad();
  }
  const Tensor guess = argmax(logits_of(fresh), 1);
  int right = 0;
  for (int64_t i = 0; i < guess.numel(); ++i) {
    right += guess.data<int64_t>()[i] == fresh.labels.data<int64_t>()[i] ? 1 : 0;
  }
  std::printf(say("%ld reviews to learn from; right of %ld new ones: %d\n",
                  "학습한 리뷰 %ld개; 새 리뷰 %ld개 가운데 맞힌 것: %d\n"),
              learn->examples(), guess.numel(), right);
  const char* const names[] = {say("negative", "부정"), say("neutral", "중립"),
                               say("positive", "긍정")};
  for (const char* text : {"음식은 안 좋다", "this book was terrible", "the song was not boring"}) {
    const Encoding tokens = tokenizer.encode(text);
    const Recorder recorder;
    const Tensor ids = reshape(Tensor::from(tokens.ids, {int64_t(tokens.ids.size())}), {1, -1});
    const Tensor answer = argmax(model->forward({.input_ids = ids.to(DType::i64)}).logits, 1);
    std::printf("%s: %s\n", text, names[answer.data<int64_t>()[0]]);
    if (argc > 1) {  // a folder for the lesson's picture
      Heatmap map = lesson::heatmap(text);
      map.panels = {{"", recorder.attentions()[0].record.weights(0, 0)}};
      map.row_labels = map.column_labels = token_labels(tokens, text);
      save_picture(std::string(argv[1]) + "/10.svg", map);
    }
  }
}
