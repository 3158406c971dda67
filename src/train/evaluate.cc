#include "train/evaluate.h"

#include <cmath>

#include "base/check.h"
#include "base/clock.h"
#include "base/language.h"
#include "dist/communicator.h"
#include "generate/numbers.h"
#include "heed/generate.h"
#include "heed/io.h"
#include "heed/ops.h"
#include "heed/train.h"
#include "io/json_writer.h"

namespace heed {
namespace {

constexpr int64_t kDecodeTogether = 32;
constexpr size_t kSamples = 3;

/// Whether this rank computes the batch.
bool is_mine(const Communicator& ranks, int64_t step) {
  return step % ranks.size() == ranks.rank();
}

const Loader& shown_set(const Task& task) {
  return task.validation ? *task.validation : *task.train;
}

std::string text_of(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  return tokenizer.decode(ids, true);
}

/// Row `row` of i64 [B, T] where the mask is not 0, or all of it.
std::vector<TokenId> ids_of(const Tensor& ids, const Tensor& mask, int64_t row) {
  std::vector<TokenId> result;
  const int64_t length = ids.size(1);
  const Tensor plain = ids.contiguous();
  const Tensor real = mask.defined() ? mask.contiguous() : Tensor();
  for (int64_t t = 0; t < length; ++t) {
    const int64_t id = plain.data<int64_t>()[row * length + t];
    if (id >= 0 && (!real.defined() || real.data<int64_t>()[row * length + t] != 0)) {
      result.push_back(id);
    }
  }
  return result;
}

/// What the model writes for the rows of a batch, greedily.
std::vector<std::string> generate_rows(const Model& model, const Task& task,
                                       const TrainOptions& options, const Batch& batch,
                                       int64_t rows) {
  std::vector<std::vector<TokenId>> written(static_cast<size_t>(rows));
  const std::vector<int64_t> end = generation_tokens(model).end;
  Scheduler scheduler(model, kDecodeTogether);
  for (int64_t row = 0; row < rows; ++row) {
    const Batch one = batch_rows(batch, row, row + 1);
    Request request;
    request.encoder = to_input(one, options, false);
    request.encoder.labels = request.encoder.decoder_input_ids = {};
    request.encoder.decoder_attention_mask = {};
    request.end = end;
    request.prompt = task.prompt;
    // A model that has learned nothing yet would otherwise write to the end of its context.
    const int64_t longest = 2 * one.labels.size(1) + 8;
    request.max_tokens = std::max<int64_t>(
        1, model.context_length() > 0 ? std::min(longest, model.context_length() - 1) : longest);
    std::vector<TokenId>& ids = written[static_cast<size_t>(row)];
    request.on_token = [&ids](const SampledToken& choice) {
      ids.push_back(choice.id);
      return true;
    };
    scheduler.add(std::move(request));
  }
  scheduler.run();
  std::vector<std::string> texts;
  texts.reserve(written.size());
  for (const std::vector<TokenId>& ids : written) {
    texts.push_back(text_of(task.tokenizer, ids));
  }
  return texts;
}

struct Generated {
  std::vector<std::string> inputs, references, texts;
};

Generated generate_set(const Model& model, const Task& task, const TrainOptions& options,
                       int64_t most) {
  Generated all;
  std::vector<size_t> writer;  // the rank that writes a text
  Communicator& ranks = world();
  const Loader& set = *task.validation;
  const int64_t count = most > 0 ? std::min(most, set.examples()) : set.examples();
  int64_t done = 0;
  for (int64_t step = 0; step < set.steps_per_epoch() && done < count; ++step) {
    const Batch batch = set.batch(step);
    const std::vector<int64_t> examples = set.examples_of(step);
    const int64_t rows = std::min(batch.rows, count - done);
    std::vector<std::string> texts(static_cast<size_t>(rows));
    if (is_mine(ranks, step)) {
      texts = generate_rows(model, task, options, batch, rows);
    }
    for (std::string& text : texts) {
      all.texts.push_back(std::move(text));
      writer.push_back(static_cast<size_t>(step % ranks.size()));
    }
    for (int64_t row = 0; row < rows; ++row) {
      const auto example = static_cast<size_t>(examples[static_cast<size_t>(row)]);
      check(example < task.texts.size(), "evaluate", "example {} of {} texts", example,
            task.texts.size());
      all.inputs.push_back(task.texts[example].source);
      all.references.push_back(task.texts[example].target);
    }
    done += rows;
  }
  if (ranks.size() > 1) {
    std::vector<std::vector<std::string>> of_rank;
    for (const std::string& texts : ranks.gather(JsonWriter().value(all.texts).text())) {
      of_rank.push_back(Json::parse(texts, "ranks").strings());
    }
    for (size_t i = 0; i < all.texts.size(); ++i) {
      all.texts[i] = of_rank[writer[i]][i];
    }
  }
  return all;
}

std::string join_numbers(const std::vector<double>& values) {
  std::string text = "[";
  for (const double value : values) {
    text += fmt::format("{}{:.4g}", text.size() > 1 ? ", " : "", value);
  }
  return text + "]";
}

std::vector<double> row_of(const Tensor& values, int64_t row) {
  return slice(values, 0, row, row + 1).to_doubles();
}

/// Whether a model has what generation with a cache needs; one of a user's own may not.
bool generates_stepwise(const Model& model) {
  try {
    model.new_cache(1);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// The likeliest tokens after `ids`, by whole passes.
std::vector<TokenId> likeliest_continuation(const Model& model, std::vector<TokenId> ids,
                                            int64_t count) {
  const NoGrad no_grad;
  std::vector<TokenId> written;
  for (int64_t i = 0; i < count; ++i) {
    ModelInput input;
    input.input_ids = unsqueeze(Tensor::from(ids), 0);
    const Tensor logits = model.forward(input).logits;
    const Tensor last = reshape(slice(logits, 1, logits.size(1) - 1, logits.size(1)), {1, -1});
    ids.push_back(static_cast<TokenId>(argmax(last, 1).to_doubles().front()));
    written.push_back(ids.back());
  }
  return written;
}

std::vector<TokenId> sample_continuation(const Model& model, const std::vector<TokenId>& ids,
                                         int64_t count, uint64_t seed) {
  Request request;
  request.prompt.assign(ids.begin(), ids.end());
  request.sampling.temperature = 0.8;
  request.sampling.seed = seed;
  request.max_tokens = count;
  request.end = generation_tokens(model).end;
  std::vector<TokenId> written;
  request.on_token = [&written](const SampledToken& choice) {
    written.push_back(choice.id);
    return true;
  };
  Scheduler scheduler(model, 1);
  scheduler.add(std::move(request));
  scheduler.run();
  return written;
}

/// The beginning of a validation text, and how the model goes on.
TrainSample continuation(const Model& model, const Task& task, uint64_t seed) {
  constexpr size_t kPrompt = 16;
  constexpr int64_t kTokens = 48;
  const Batch batch = shown_set(task).batch(0);
  std::vector<TokenId> ids = ids_of(batch.input_ids, {}, 0);
  const size_t prompt = std::min(kPrompt, std::max<size_t>(ids.size() / 2, 1));
  TrainSample sample;
  sample.target = text_of(task.tokenizer, {ids.begin() + static_cast<int64_t>(prompt), ids.end()});
  ids.resize(prompt);
  sample.input = text_of(task.tokenizer, ids);
  const std::vector<TokenId> written = generates_stepwise(model)
                                           ? sample_continuation(model, ids, kTokens, seed)
                                           : likeliest_continuation(model, ids, kTokens);
  sample.output = text_of(task.tokenizer, written);
  return sample;
}

/// A masked text, and the model's words for the masks.
TrainSample filled_masks(const Model& model, const Task& task, const TrainOptions& options) {
  constexpr int64_t kShown = 40;
  const Batch batch = batch_rows(shown_set(task).batch(0), 0, 1);
  ModelInput input = to_input(batch, options, false);
  input.want_logits = true;
  const Tensor logits = model.forward(input).logits;
  const std::vector<double> best =
      argmax(reshape(logits, {logits.size(1), logits.size(2)}), 1).to_doubles();
  const Tensor labels = batch.labels.contiguous();
  std::vector<TokenId> given = ids_of(batch.input_ids, {}, 0);
  std::vector<TokenId> truth = given;
  std::vector<TokenId> filled = given;
  for (size_t t = 0; t < given.size(); ++t) {
    const int64_t label = labels.data<int64_t>()[t];
    if (label >= 0) {
      truth[t] = label;
      filled[t] = best[t];
    }
  }
  const auto shown = [&](std::vector<TokenId> ids, bool skip_special) {
    ids.resize(std::min<size_t>(ids.size(), kShown));
    return task.tokenizer.decode(ids, skip_special);
  };
  return {shown(given, false), shown(truth, true), shown(filled, true)};
}

std::vector<TrainSample> class_samples(const Model& model, const Task& task,
                                       const TrainOptions& options) {
  const Loader& set = shown_set(task);
  const Batch first = set.batch(0);
  const Batch batch = batch_rows(first, 0, std::min<int64_t>(first.rows, kSamples));
  ModelInput input = to_input(batch, options, false);
  input.want_logits = true;
  const std::vector<double> best = argmax(model.forward(input).logits, 1).to_doubles();
  const std::vector<double> truth = batch.labels.to_doubles();
  const std::vector<int64_t> examples = set.examples_of(0);
  std::vector<TrainSample> samples;
  for (int64_t row = 0; row < batch.rows; ++row) {
    const auto i = static_cast<size_t>(row);
    samples.push_back(
        {batch.input_ids.defined()
             ? text_of(task.tokenizer, ids_of(batch.input_ids, batch.attention_mask, row))
             : tell("image {}", examples[i]),
         task.labels[static_cast<size_t>(truth[i])], task.labels[static_cast<size_t>(best[i])]});
  }
  return samples;
}

std::vector<TrainSample> number_samples(const Model& model, const Task& task) {
  const Loader& set = shown_set(task);
  const Batch batch = set.batch(0);
  std::vector<TrainSample> samples;
  const int64_t rows = std::min({batch.rows, set.examples(), static_cast<int64_t>(kSamples)});
  for (int64_t row = 0; row < rows; ++row) {
    const Tensor features = slice(batch.features, 0, row, row + 1);
    samples.push_back({join_numbers(row_of(batch.features, row)),
                       join_numbers(row_of(batch.labels, row)),
                       join_numbers(predict_numbers(model, features, batch.labels.size(1)))});
  }
  return samples;
}

/// The metric that chooses the best model, so that larger is better.
double score_of(const Evaluation& found, const std::string& best_by) {
  for (const auto& [name, value] : found.metrics) {
    if (name == "val_" + best_by) {
      return best_by == "perplexity" || best_by == "wer" ? -value : value;
    }
  }
  return -found.loss;
}

/// The loss over the set, and the classes that were true and predicted.
void run_set(const Model& model, const Task& task, const TrainOptions& options, Evaluation& result,
             std::vector<int64_t>& truth, std::vector<int64_t>& predicted) {
  Communicator& ranks = world();
  const bool classes = task.metric == TaskMetric::classes;
  const auto steps = static_cast<size_t>(task.validation->steps_per_epoch());
  const auto examples = classes ? static_cast<size_t>(task.validation->examples()) : 0;
  // Ranks take turns at the batches. What another one computes is 0 here, so that the sums over the
  // ranks are exact, and the metrics are bit-identical to those of one rank.
  std::vector<double> found(3 * steps + 2 * examples, 0.0);
  for (size_t step = 0; step < steps; ++step) {
    if (!is_mine(ranks, static_cast<int64_t>(step))) {
      continue;
    }
    const Batch batch = task.validation->batch(static_cast<int64_t>(step));
    ModelInput input = to_input(batch, options, false);
    input.want_logits = classes;
    ModelOutput output;
    if (task.loss) {
      output.loss = task.loss(model, input);
    } else {
      output = model.forward(input);
    }
    found[step] = output.loss.item() * static_cast<double>(batch.targets);
    found[steps + step] = static_cast<double>(batch.targets);
    found[2 * steps + step] = static_cast<double>(batch.tokens);
    if (classes) {
      const auto place = found.begin() + static_cast<int64_t>(3 * steps) +
                         static_cast<int64_t>(step) * options.batch;
      const std::vector<double> best = argmax(output.logits, 1).to_doubles();
      const std::vector<double> gold = batch.labels.to_doubles();
      std::copy(best.begin(), best.end(), place);
      std::copy(gold.begin(), gold.end(), place + static_cast<int64_t>(examples));
    }
  }
  found = ranks.sum(found);
  double loss = 0.0;
  double targets = 0.0;
  for (size_t step = 0; step < steps; ++step) {
    loss += found[step];
    targets += found[steps + step];
    result.tokens += static_cast<int64_t>(found[2 * steps + step]);
  }
  for (size_t i = 0; i < examples; ++i) {
    predicted.push_back(static_cast<int64_t>(found[3 * steps + i]));
    truth.push_back(static_cast<int64_t>(found[3 * steps + examples + i]));
  }
  result.loss = loss / std::max(targets, 1.0);
}

}  // namespace

std::vector<TrainSample> make_samples(const Model& model, const Task& task,
                                      const TrainOptions& options, uint64_t seed) {
  const NoGrad no_grad;
  switch (task.metric) {
    case TaskMetric::classes:
      return class_samples(model, task, options);
    case TaskMetric::numbers:
      return number_samples(model, task);
    case TaskMetric::preference:
      return {continuation(model, task, seed)};
    case TaskMetric::retrieval:
      return {};
    case TaskMetric::perplexity:
      return {options.task == "mlm" ? filled_masks(model, task, options)
                                    : continuation(model, task, seed)};
    case TaskMetric::translation:
    case TaskMetric::captions:
    case TaskMetric::speech:
      break;
  }
  const Batch first = shown_set(task).batch(0);
  const int64_t rows = std::min<int64_t>(first.rows, kSamples);
  const std::vector<std::string> texts = generate_rows(model, task, options, first, rows);
  std::vector<TrainSample> samples;
  for (int64_t row = 0; row < rows; ++row) {
    TrainSample sample;
    if (first.input_ids.defined()) {
      sample.input = text_of(task.tokenizer,
                             ids_of(first.input_ids, first.attention_mask, row * first.passages));
    }
    sample.target = text_of(task.tokenizer, ids_of(first.labels, {}, row));
    sample.output = texts[static_cast<size_t>(row)];
    samples.push_back(std::move(sample));
  }
  return samples;
}

Evaluation evaluate(const Model& model, const Task& task, const TrainOptions& options,
                    int64_t most_texts, uint64_t seed) {
  const NoGrad no_grad;
  const double begin = seconds_now();
  Evaluation result;
  std::vector<int64_t> truth, predicted;
  run_set(model, task, options, result, truth, predicted);
  result.score = -result.loss;
  if (!std::isfinite(result.loss)) {
    return result;  // nothing to show: tokens cannot be chosen from such logits
  }
  switch (task.metric) {
    case TaskMetric::perplexity:
      result.metrics.emplace_back("val_perplexity", std::exp(result.loss));
      break;
    case TaskMetric::numbers:
    case TaskMetric::preference:
      break;
    case TaskMetric::retrieval:
      result.metrics = retrieval_metrics(model, task, options);
      break;
    case TaskMetric::classes: {
      const auto classes = static_cast<int64_t>(task.labels.size());
      const ClassScores scores = class_scores(truth, predicted, classes);
      // Macro-F1 first: a model that always gives the most frequent class has a fair accuracy.
      result.metrics.emplace_back("val_f1_macro", scores.macro_f1);
      result.metrics.emplace_back("val_accuracy", scores.accuracy);
      result.metrics.emplace_back("val_f1", classes == 2 ? scores.binary_f1 : scores.macro_f1);
      result.classes = scores;
      break;
    }
    case TaskMetric::translation:
    case TaskMetric::captions:
    case TaskMetric::speech: {
      const Generated all = generate_set(model, task, options, most_texts);
      if (task.metric == TaskMetric::translation) {
        result.metrics.emplace_back("val_bleu", corpus_bleu(all.texts, all.references).score);
        result.metrics.emplace_back("val_chrf", corpus_chrf(all.texts, all.references));
      }
      if (task.metric == TaskMetric::speech) {
        result.metrics.emplace_back("val_wer", word_error_rate(all.texts, all.references));
      }
      result.metrics.emplace_back("val_exact_match", exact_match(all.texts, all.references));
      for (size_t i = 0; i < std::min(kSamples, all.texts.size()); ++i) {
        result.samples.push_back({all.inputs[i], all.references[i], all.texts[i]});
      }
      break;
    }
  }
  result.score = score_of(result, options.best_by);
  if (result.samples.empty()) {
    result.samples = make_samples(model, task, options, seed);
  }
  result.seconds = seconds_now() - begin;
  return result;
}

}  // namespace heed
