#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "heed/export.h"
#include "heed/metrics.h"
#include "heed/trainer.h"

namespace heed {

/// A training run. What is 0 or empty is chosen by the task and the data. What each option means in
/// full, its range and its default stand in `heed train --help`.
struct TrainOptions {
  std::string task;  ///< lm, mlm, preference, translate, classify, embed, fid, caption, regress …
  std::string data;
  std::string validation;  ///< a separate dataset; empty: a fraction of `data`
  double validation_fraction = 0.05;
  std::filesystem::path out;
  std::string arch;                 ///< model_type; empty: the task's usual one
  std::string tokenizer;            ///< char, bpe:N, wordpiece:N, unigram:N or a file
  std::string from;                 ///< fine-tune this model folder
  std::vector<std::string> freeze;  ///< beginnings of parameter names that stay as they are
  /// Trains a low-rank adapter of `from` instead of its weights: "rank=16,alpha=32,targets=all";
  /// empty: no adapter. What is left out is as in LoraOptions.
  std::string lora;

  int64_t layers = 4, heads = 4, width = 128, ff = 0, context = 128, vocab = 0;
  double dropout = 0.1;
  std::string language = "en";      ///< transcribe: of the recordings, for multilingual models
  bool unordered_features = false;  ///< captions: regions have no order and get no positions

  int64_t batch = 32;       ///< examples per step, over all ranks
  int64_t micro_batch = 0;  ///< examples at a time; 0: all of them
  int64_t steps = 0;        ///< 0: by epochs
  int64_t epochs = 1;
  double lr = 0.0;  ///< peak; 0: default_learning_rate()
  int64_t warmup = 100;
  std::string schedule = "cosine";
  double weight_decay = 0.01;
  double clip = 1.0;
  double label_smoothing = 0.0;
  double dpo_beta = 0.1;      ///< preference: how far the model may go from where it began
  double temperature = 0.05;  ///< task embed: cosines are divided by it
  std::string matryoshka;     ///< task embed: further sizes of vectors to train, "128,64"
  uint64_t seed = 0;
  std::string precision = "f32";  ///< of activations in training: f32, bf16 or f16
  bool recompute = false;

  std::string best_by;   ///< metric that chooses the model to keep; empty: default_best_by()
  int64_t patience = 0;  ///< stop after so many evaluations without a better one; 0: never
  double ema = 0.0;      ///< decay of the moving average of the weights that is evaluated and saved
  int64_t eval_texts = 200;  ///< validation texts to generate at an evaluation; all at the end
  int64_t probes = 2;        ///< tracked examples: their attention is saved at each evaluation

  int64_t eval_every = 0;        ///< steps; 0: a tenth of the run
  int64_t checkpoint_every = 0;  ///< steps; 0: a tenth of the run
  int64_t keep = 2;              ///< checkpoints
  bool resume = false;
  bool shard_optimizer = false;  ///< divides moments and updates among the ranks (ZeRO stage 1)
  int64_t threads = 0;           ///< per rank; 0: an equal part of the machine's cores
  bool force = false;            ///< start even where memory will not suffice
  bool quiet = false;
};

/// One example and what the model makes of it, in words (or numbers).
struct TrainSample {
  std::string input;
  std::string target;  ///< what it should have been; may be empty
  std::string output;
};

struct TrainResult {
  int64_t steps = 0;
  double loss = 0.0;                                    ///< of the last step
  double val_loss = 0.0;                                ///< the best; 0 without validation
  std::vector<std::pair<std::string, double>> metrics;  ///< of the best model: "val_bleu", …
  std::string best_by;                                  ///< the metric that chose the best model
  std::vector<TrainSample> samples;                     ///< of the last evaluation
  std::vector<std::string> labels;                      ///< names of the classes, if any
  ClassScores classes;                                  ///< of the best model on them
  bool interrupted = false;  ///< TrainCallbacks::stop: saved, go on with `resume`
  int rank = 0;              ///< of this process; only rank 0 writes
};

/// What a program wants to hear of a run, and may say to it. Everything is optional.
struct TrainCallbacks {
  std::stop_token stop = {};                 ///< requested: the run saves and ends
  std::function<void()> on_start = nullptr;  ///< everything is read; the steps begin
  std::function<void(const TrainProgress&)> on_step = nullptr;
  std::function<void()> on_stopping = nullptr;  ///< all ranks have heard of `stop` and will save
  /// Under mpirun an error on one rank ends all processes: with which exit code?
  std::function<int(const std::exception&)> exit_code = nullptr;
};

/// Trains and leaves a run folder: config.toml, metrics.jsonl, checkpoints/, model/. The same
/// options give bit-identical weights for any thread count, and a resumed run those of an unbroken
/// one. Under mpirun every rank calls it with the same options and computes its part of each step;
/// an error on one rank ends all of them. Installs no signal handlers: a program that wants Ctrl-C
/// to save asks `callbacks.stop` to stop. See Trainer for the loop alone.
HEED_API TrainResult train(const TrainOptions& options, const TrainCallbacks& callbacks = {});

/// Throws kind usage, with the option's name, where a value is none that `train` could take.
HEED_API void check_train_options(const TrainOptions& options);

/// Sizes, batch and rates that go well together for a task.
struct TrainPreset {
  const char* task;
  const char* name;  ///< tiny: minutes on two cores; small: about an hour; base: published sizes
  int64_t layers, heads, width, ff, context, batch;  ///< ff 0: 4 x width
  double lr, dropout;
};
HEED_API const std::vector<TrainPreset>& train_presets();
/// Sets the values of a preset for options.task: tiny, small or base.
HEED_API void apply_train_preset(const std::string& name, TrainOptions& options);

/// The peak learning rate where none is given: 1e-3 for a fresh model. A pretrained one would
/// forget what it knows at that rate and gets 5e-5, or 3e-4 where its hidden size is below 256; an
/// adapter gets 2e-4.
HEED_API double default_learning_rate(const TrainOptions& options);
/// The metric that chooses the model to keep: "loss", "macro_f1", "chrf" or "exact_match".
HEED_API std::string default_best_by(const std::string& task);
/// The options with everything settled that `from` settles: the sizes of that model, the learning
/// rate, the metric. `train` does it itself.
HEED_API TrainOptions resolve_train_options(TrainOptions options);

/// The options as TOML, as the run folder keeps them; and back, over the values that are there. A
/// `preset` in the file is applied before the file's other values, unless `ignore_preset`.
HEED_API std::string dump_train_options(const TrainOptions& options);
HEED_API void read_train_options(const std::filesystem::path& path, TrainOptions& options,
                                 bool ignore_preset = false);
HEED_API void parse_train_options(const std::string& text, const std::string& name,
                                  TrainOptions& options, bool ignore_preset = false);

}  // namespace heed
