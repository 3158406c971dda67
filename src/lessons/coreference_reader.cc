#include <algorithm>

#include "base/check.h"
#include "base/clock.h"
#include "heed/io.h"
#include "heed/lessons.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "heed/tensor.h"
#include "heed/train.h"

namespace heed {
namespace {

constexpr int64_t kContext = 64;  // words
constexpr double kPeakRate = 2e-3;
constexpr double kClip = 1.0;

Json reader_config(const CoreferenceOptions& options, int64_t vocabulary) {
  JsonBuilder config;
  config.set("model_type", "heed-reader");
  config.set("readout", options.readout == Readout::attention ? "attention" : "classifier");
  config.set("vocab_size", vocabulary);
  config.set("max_position_embeddings", kContext);
  config.set("d_model", 64).set("encoder_layers", 2).set("encoder_attention_heads", 4);
  config.set("encoder_ffn_dim", 128).set("activation_function", "gelu").set("dropout", 0.0);
  config.set("pad_token_id", 0);
  if (options.readout == Readout::classifier) {
    const std::vector<std::string> answers = coreference_answers(options.language);
    JsonBuilder labels;
    for (size_t i = 0; i < answers.size(); ++i) {
      labels.set(std::to_string(i), answers[i]);
    }
    config.set("id2label", labels);
  }
  return config.build();
}

Json special_token(const char* name, int64_t id) {
  return JsonBuilder()
      .set("id", id)
      .set("content", name)
      .set("single_word", false)
      .set("lstrip", false)
      .set("rstrip", false)
      .set("normalized", false)
      .set("special", true)
      .build();
}

Tokenizer word_tokenizer(Language language) {
  JsonBuilder vocabulary;
  vocabulary.set("[PAD]", 0).set("[UNK]", 1);
  int64_t size = 2;
  for (const std::string& word : coreference_words(language)) {
    vocabulary.set(word, size++);
  }
  JsonBuilder file;
  file.set("version", "1.0");
  file.set("added_tokens", std::vector<Json>{special_token("[PAD]", 0), special_token("[UNK]", 1)});
  file.set("pre_tokenizer", JsonBuilder().set("type", "WhitespaceSplit"));
  file.set(
      "model",
      JsonBuilder().set("type", "WordLevel").set("vocab", vocabulary).set("unk_token", "[UNK]"));
  return Tokenizer::from_json(file.dump(-1), "the words of the synthetic dataset");
}

/// Sentences as one padded batch; labels are the referents' positions, or the answers' classes.
ModelInput make_batch(const CoreferenceReader& reader,
                      const std::vector<CoreferenceExample>& examples) {
  const std::vector<std::string> answers = coreference_answers(reader.options.language);
  size_t longest = 0;
  for (const CoreferenceExample& example : examples) {
    longest = std::max(longest, example.words.size());
  }
  const auto batch = static_cast<int64_t>(examples.size());
  const auto length = static_cast<int64_t>(longest);
  ModelInput input;
  input.input_ids = Tensor::zeros({batch, length}, DType::i64);
  input.attention_mask = Tensor::zeros({batch, length}, DType::i64);
  input.token_type_ids = Tensor::zeros({batch, length}, DType::i64);
  input.labels = Tensor::zeros({batch}, DType::i64);
  for (int64_t b = 0; b < batch; ++b) {
    const CoreferenceExample& example = examples[static_cast<size_t>(b)];
    for (size_t t = 0; t < example.words.size(); ++t) {
      const int64_t place = b * length + static_cast<int64_t>(t);
      input.input_ids.data<int64_t>()[place] =
          reader.tokenizer.token_to_id(example.words[t]).value_or(1);
      input.attention_mask.data<int64_t>()[place] = 1;
    }
    input.token_type_ids.data<int64_t>()[b * length + example.query] = 1;
    input.labels.data<int64_t>()[b] =
        reader.options.readout == Readout::attention
            ? example.referent
            : std::lower_bound(answers.begin(), answers.end(), example.answer) - answers.begin();
  }
  input.skip_padding = true;
  input.want_logits = true;
  return input;
}

std::vector<CoreferenceExample> examples_from(const SyntheticOptions& options, int64_t first,
                                              int64_t count) {
  std::vector<CoreferenceExample> examples;
  for (int64_t i = 0; i < count; ++i) {
    examples.push_back(coreference_example(options, static_cast<uint64_t>(first + i)));
  }
  return examples;
}

}  // namespace

CoreferenceReader train_coreference(const CoreferenceOptions& options,
                                    const std::function<void(const TrainProgress&)>& progress) {
  CoreferenceReader reader;
  reader.options = options;
  reader.tokenizer = word_tokenizer(options.language);
  reader.model = create_model(reader_config(options, reader.tokenizer.vocab_size()), options.seed);
  manual_seed(options.seed);
  OptimizerOptions settings;
  settings.beta2 = 0.98;
  Optimizer optimizer(decay_groups(named_tensors(reader.model->parameters()), 0.01), settings);
  const Schedule schedule{ScheduleKind::cosine, kPeakRate, options.steps / 10, options.steps, 0.0};
  const SyntheticOptions set{options.language, options.seed, false};
  for (int64_t step = 1; step <= options.steps; ++step) {
    const double start = seconds_now();
    ModelInput input =
        make_batch(reader, examples_from(set, (step - 1) * options.batch, options.batch));
    input.training = true;
    const Tensor loss = reader.model->forward(input).loss;
    const double value = loss.item();
    backward(loss);
    const double norm = optimizer.grad_norm();
    optimizer.set_lr(schedule.lr(step));
    optimizer.step(norm > kClip ? kClip / norm : 1.0);
    optimizer.zero_grad();
    if (progress) {
      const double seconds = seconds_now() - start;
      const double tokens = sum(input.attention_mask.to(DType::f32)).item();
      progress({.step = step,
                .steps = options.steps,
                .loss = value,
                .norm = norm,
                .lr = optimizer.lr(),
                .seconds = seconds,
                .tokens_per_second = tokens / seconds});
    }
  }
  return reader;
}

std::vector<double> CoreferenceReader::weights(const CoreferenceExample& example) const {
  check(options.readout == Readout::attention, "weights", "a classifier has no readout's weights");
  const NoGrad no_grad;
  ModelInput input = make_batch(*this, {example});
  input.labels = Tensor();
  return softmax(model->forward(input).logits).to_doubles();
}

namespace {

/// What each sentence's largest logit stands for: a position, or a class.
std::vector<int64_t> best_of(const CoreferenceReader& reader,
                             const std::vector<CoreferenceExample>& examples) {
  const NoGrad no_grad;
  ModelInput input = make_batch(reader, examples);
  input.labels = Tensor();
  return argmax(reader.model->forward(input).logits, 1).to_vector<int64_t>();
}

}  // namespace

std::string CoreferenceReader::answer(const CoreferenceExample& example) const {
  const auto best = static_cast<size_t>(best_of(*this, {example}).front());
  return options.readout == Readout::attention ? example.words[best]
                                               : coreference_answers(options.language)[best];
}

CoreferenceScore score_coreference(const CoreferenceReader& reader, int64_t count) {
  const CoreferenceOptions& options = reader.options;
  const SyntheticOptions set{options.language, options.seed, true};
  const std::vector<std::string> answers = coreference_answers(options.language);
  CoreferenceScore score;
  for (int64_t first = 0; first < count; first += options.batch) {
    const auto examples = examples_from(set, first, std::min(options.batch, count - first));
    const std::vector<int64_t> best = best_of(reader, examples);
    for (size_t i = 0; i < examples.size(); ++i) {
      const auto& words = examples[i].words;
      const auto chosen = static_cast<size_t>(best[i]);
      if (options.readout == Readout::classifier) {
        score.accuracy += answers[chosen] == examples[i].answer;
        continue;
      }
      score.pointing += best[i] == examples[i].referent;
      score.accuracy += words[chosen] == words[static_cast<size_t>(examples[i].referent)];
    }
  }
  score.accuracy /= static_cast<double>(count);
  score.pointing /= static_cast<double>(count);
  return score;
}

}  // namespace heed
