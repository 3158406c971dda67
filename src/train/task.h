#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heed/data.h"
#include "heed/models.h"
#include "heed/runtime.h"
#include "heed/text.h"
#include "heed/train.h"

namespace heed {

/// How a task is evaluated.
enum class TaskMetric {
  perplexity,   ///< language models
  classes,      ///< accuracy and F1
  translation,  ///< generated texts: BLEU and chrF
  captions,     ///< generated texts: exact match
  speech,       ///< generated texts: word error rate
  numbers,      ///< the loss alone
  preference,   ///< the loss alone
  retrieval,    ///< nDCG@10 and recall of embeddings
};

/// What a run trains: a model, its tokenizer and its data.
struct Task {
  std::unique_ptr<Model> model;
  Tokenizer tokenizer;  ///< undefined for images' classes and numbers
  std::unique_ptr<Loader> train;
  std::unique_ptr<Loader> validation;  ///< may be null
  TaskMetric metric = TaskMetric::perplexity;
  std::vector<std::string> labels;  ///< names of the classes
  /// The validation set's texts by example, where generated ones are compared with them.
  std::vector<TextPair> texts;
  std::vector<int64_t> prompt;  ///< what generated texts go on from, behind the start token
  /// The loss of a batch; empty: the model's own.
  LossFunction loss;
  std::string preprocessor;  ///< text of preprocessor_config.json, where there are images
};

/// One line for people: the model, its data and the steps to come.
std::string describe(const Task& task, int64_t steps);

/// Reads the data, trains the tokenizer where one is to be trained, and makes or loads the model.
Task make_task(const TrainOptions& options);
Task make_caption_task(const TrainOptions& options);
Task make_speech_task(const TrainOptions& options);
/// Conversations (JSON lines with `messages`), of which the assistant's turns are learned.
Task make_chat_task(const TrainOptions& options);
/// Pairs of answers (JSON lines with `prompt`, `chosen` and `rejected`).
Task make_preference_task(const TrainOptions& options);
Task make_fid_task(const TrainOptions& options);
Task make_embed_task(const TrainOptions& options);

/// The loss of a batch.
inline Tensor loss_of(const Task& task, const Model& model, const ModelInput& input) {
  return task.loss ? task.loss(model, input) : model.forward(input).loss;
}

/// nDCG@10, recall@1 and recall@10 of an encoder on the validation set: every query against the
/// positives and negatives of all examples; with `--matryoshka`, nDCG@10 of every size, too.
std::vector<std::pair<std::string, double>> retrieval_metrics(const Model& model, const Task& task,
                                                              const TrainOptions& options);

/// A batch as a model takes it.
ModelInput to_input(const Batch& batch, const TrainOptions& options, bool training);

/// The tokenizer of `from`, of a file, or one trained on `texts`.
Tokenizer choose_tokenizer(const TrainOptions& o, const std::string& otherwise,
                           const std::vector<std::string>& texts);

/// How the pixels of a set become pixel_values: as the folder of `from` asks for, else at their own
/// size in memory and at 64 x 64 from files.
ImageOptions image_options(const TrainOptions& o, const ImageData& data);
/// preprocessor_config.json, by which others feed the model the same values.
std::string preprocessor_config(const ImageOptions& images);

/// Options of the two loaders: a fraction of the data or a set of its own for validation.
LoaderOptions loader_options(const TrainOptions& o, const Model& model, bool validation);

/// Makes both loaders with make(own set, loader options); `own set` is true for a validation set
/// that has files of its own.
template <class Make>
void add_loaders(Task& task, const TrainOptions& o, const Make& make) {
  const auto named = [&](bool own_set, bool validation) {
    const std::string& data = own_set ? o.validation : o.data;
    try {
      return make(own_set, loader_options(o, *task.model, validation));
    } catch (const Error& error) {  // a loader sees examples, not where they come from
      const std::string what = error.what();
      throw Error(error.kind(), what.find(data) == std::string::npos ? data + ": " + what : what);
    }
  };
  task.train = named(false, false);
  if (!o.validation.empty() || o.validation_fraction > 0.0) {
    task.validation = named(!o.validation.empty(), true);
  }
}

}  // namespace heed
