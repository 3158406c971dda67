#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/check.h"
#include "base/language.h"
#include "generate/numbers.h"
#include "heed/data.h"
#include "heed/eval.h"
#include "heed/io.h"
#include "heed/open.h"
#include "heed/ops.h"
#include "heed/pipelines.h"
#include "heed/progress.h"
#include "heed/tensor.h"
#include "train/evaluate.h"
#include "train/task.h"

namespace heed::app {
namespace {

constexpr double kLeast = 1e-30;  // of a probability whose logarithm is taken

/// How a pipeline runs, with a bar on stderr.
RunOptions with_progress(ProgressBar& bar, int64_t batch) {
  RunOptions run;
  run.batch_size = batch;
  run.progress = [&bar](int64_t done, int64_t total) { bar(done, total); };
  return run;
}

/// Ids of a model's labels by name.
std::unordered_map<std::string, int64_t> ids_of(const std::vector<LabelScore>& scores) {
  std::unordered_map<std::string, int64_t> ids;
  for (const LabelScore& each : scores) {
    ids.emplace(each.label, each.id);
  }
  return ids;
}

std::vector<std::string> names_of(const std::vector<LabelScore>& scores) {
  std::vector<std::string> names(scores.size());
  for (const LabelScore& each : scores) {
    names[static_cast<size_t>(each.id)] = each.label;
  }
  return names;
}

/// What config.json calls the classes.
std::vector<std::string> label_names(const Model& model) {
  const Json& config = model.config();
  const auto known = config.find("id2label");
  std::vector<std::string> names;
  for (size_t i = 0; known && i < known->size(); ++i) {
    names.push_back(known->string_or(std::to_string(i), fmt::format("LABEL_{}", i)));
  }
  return names;
}

/// Probabilities with their labels, the best first.
std::vector<LabelScore> scores_of(const std::vector<double>& shares,
                                  const std::vector<std::string>& names) {
  std::vector<LabelScore> scores;
  for (size_t i = 0; i < shares.size(); ++i) {
    scores.push_back({i < names.size() ? names[i] : fmt::format("LABEL_{}", i), shares[i],
                      static_cast<int64_t>(i)});
  }
  std::stable_sort(scores.begin(), scores.end(),
                   [](const LabelScore& a, const LabelScore& b) { return a.score > b.score; });
  return scores;
}

EvalReport class_report(const std::vector<std::string>& truth,
                        const std::vector<std::vector<LabelScore>>& results,
                        const std::string& data) {
  EvalReport report;
  check_data(!results.empty(), data, "has no examples");
  report.labels = names_of(results.front());
  const auto ids = ids_of(results.front());
  std::vector<int64_t> expected, predicted;
  double loss = 0.0;
  for (size_t i = 0; i < results.size(); ++i) {
    const auto id = ids.find(truth[i]);
    check_data(id != ids.end(), data, "has the label '{}' in example {}; the model knows {}",
               truth[i], i + 1, fmt::join(report.labels, ", "));
    expected.push_back(id->second);
    predicted.push_back(results[i].front().id);
    for (const LabelScore& each : results[i]) {
      loss -= each.id == id->second ? std::log(std::max(each.score, kLeast)) : 0.0;
    }
  }
  const auto classes = static_cast<int64_t>(report.labels.size());
  report.classes = class_scores(expected, predicted, classes);
  report.examples = static_cast<int64_t>(results.size());
  report.metrics = {{"f1_macro", report.classes.macro_f1}, {"accuracy", report.classes.accuracy}};
  if (classes == 2) {
    report.metrics.emplace_back("f1", report.classes.binary_f1);
  }
  report.metrics.emplace_back("loss", loss / static_cast<double>(results.size()));
  return report;
}

}  // namespace

EvalReport eval_classify(const EvalOptions& options, const Common& common) {
  const TextClassification classify(
      options.model, {.tokenizer = options.tokenizer, .load = {.adapter = options.adapter}});
  std::vector<std::string> texts, truth;
  for (LabelledText& row : read_labelled(options.data)) {
    texts.push_back(std::move(row.text));
    truth.push_back(std::move(row.label));
  }
  check_data(!texts.empty(), options.data, "has no examples");
  ProgressBar bar(tell("classifying"), common, say("texts"));
  return class_report(truth, classify(texts, {.run = with_progress(bar, options.batch)}),
                      options.data);
}

EvalReport eval_image_classify(const EvalOptions& options, const Common& common) {
  const LoadedModel loaded =
      heed::open_model(options.model, {.load = {.adapter = options.adapter}});
  const ImageData data = load_image_classes(options.data, "t10k");
  check_data(data.size() > 0, options.data, "has no examples");
  check_data(loaded.model->kind() == ModelKind::vision, options.model,
             "is no classifier of images but a {}", loaded.model->model_type());
  TrainOptions as_trained;  // images are prepared as in training
  as_trained.from = loaded.path;
  const auto loader = make_image_loader(data, image_options(as_trained, data),
                                        {.batch = options.batch, .shuffle = false});
  const std::vector<std::string> names = label_names(*loaded.model);
  ProgressBar bar(tell("classifying"), common, say("images"));
  const NoGrad no_grad;
  std::vector<std::string> truth;
  std::vector<std::vector<LabelScore>> results;
  for (int64_t step = 0; step < loader->steps_per_epoch(); ++step) {
    const Batch batch = loader->batch(step);
    ModelInput input;
    input.pixel_values = batch.pixel_values;
    const Tensor shares = softmax(loaded.model->forward(input).logits, -1);
    const std::vector<double> gold = batch.labels.to_doubles();
    for (int64_t row = 0; row < batch.rows; ++row) {
      truth.push_back(data.labels[static_cast<size_t>(gold[static_cast<size_t>(row)])]);
      results.push_back(scores_of(select(shares, 0, row).to_doubles(), names));
    }
    bar(static_cast<int64_t>(results.size()), data.size());
  }
  return class_report(truth, results, options.data);
}

EvalReport eval_translate(const EvalOptions& options, const Common& common) {
  const Translation translate(
      options.model, {.tokenizer = options.tokenizer, .load = {.adapter = options.adapter}});
  std::vector<std::string> sources, references, texts;
  for (TextPair& pair : read_pairs(options.data)) {
    sources.push_back(std::move(pair.source));
    references.push_back(std::move(pair.target));
  }
  check_data(!sources.empty(), options.data, "has no examples");
  TranslationOptions wanted;
  wanted.beam.beams = options.beams > 0 ? options.beams : wanted.beam.beams;
  ProgressBar bar(tell("translating"), common, say("texts"));
  wanted.run = with_progress(bar, options.batch);
  for (const std::vector<ScoredText>& found : translate(sources, wanted)) {
    texts.push_back(found.empty() ? std::string() : found.front().text);
  }
  EvalReport report;
  report.examples = static_cast<int64_t>(texts.size());
  report.metrics = {{"bleu", corpus_bleu(texts, references).score},
                    {"chrf", corpus_chrf(texts, references)},
                    {"exact_match", exact_match(texts, references)}};
  return report;
}

EvalReport eval_caption(const EvalOptions& options, const Common& common) {
  const ImageToText describe(
      options.model, {.tokenizer = options.tokenizer, .load = {.adapter = options.adapter}});
  std::vector<ModelInput> images;
  std::vector<std::string> references, texts;
  if (std::filesystem::path(options.data).extension() == ".safetensors") {
    images = describe.inputs_of(options.data);
    references = load_features(options.data).captions;
  } else {
    const ImageData data = load_captioned_images(options.data);
    for (const std::filesystem::path& file : data.files) {
      for (ModelInput& input : describe.inputs_of(file)) {
        images.push_back(std::move(input));
      }
    }
    references = data.captions;
  }
  check_data(!images.empty() && images.size() == references.size(), options.data,
             "has {} images and {} captions", images.size(), references.size());
  CaptionOptions wanted;
  wanted.beam.beams = options.beams > 0 ? options.beams : wanted.beam.beams;
  ProgressBar bar(tell("describing"), common, say("images"));
  wanted.run = with_progress(bar, options.batch);
  for (const std::vector<ScoredText>& found : describe(images, wanted)) {
    texts.push_back(found.empty() ? std::string() : found.front().text);
  }
  EvalReport report;
  report.examples = static_cast<int64_t>(texts.size());
  report.metrics = {{"exact_match", exact_match(texts, references)},
                    {"bleu", corpus_bleu(texts, references).score},
                    {"chrf", corpus_chrf(texts, references)}};
  return report;
}

EvalReport eval_regress(const EvalOptions& options, const Common& common) {
  const auto model = load_model(find_model(options.model), {.adapter = options.adapter});
  check_data(model->kind() == ModelKind::regressor, options.model, "is no regressor but a {}",
             model->model_type());
  const NumberData data = load_numbers(options.data);
  const int64_t rows = data.input.size(0);
  check_data(rows > 0, options.data, "has no examples");
  ProgressBar bar(tell("predicting"), common, say("rows"));
  double squares = 0.0, distance = 0.0;
  int64_t exact = 0, numbers = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<double> wanted = select(data.target, 0, row).to_doubles();
    const std::vector<double> found = predict_numbers(*model, slice(data.input, 0, row, row + 1),
                                                      static_cast<int64_t>(wanted.size()));
    bool right = true;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const double error = found[i] - wanted[i];
      squares += error * error;
      distance += std::abs(error);
      right = right && std::abs(error) < 0.5;
      ++numbers;
    }
    exact += right ? 1 : 0;
    bar(row + 1, rows);
  }
  const auto count = static_cast<double>(std::max<int64_t>(numbers, 1));
  EvalReport report;
  report.examples = rows;
  report.metrics = {{"mean_squared_error", squares / count},
                    {"mean_absolute_error", distance / count},
                    {"exact_match", static_cast<double>(exact) / static_cast<double>(rows)}};
  return report;
}

}  // namespace heed::app
