#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/data.h"
#include "heed/models.h"
#include "heed/runtime.h"
#include "heed/tensor.h"

namespace heed {

// Optimizers and schedules ------------------------------------------------------------------------

using NamedTensor = std::pair<std::string, Tensor>;
/// A model's or a scope's parameters as optimizers take them.
HEED_API std::vector<NamedTensor> named_tensors(const std::vector<Parameter>& parameters);

/// Parameters that share settings. Undefined settings are the optimizer's.
struct ParameterGroup {
  std::vector<NamedTensor> parameters;
  std::optional<double> weight_decay;
  double lr_scale = 1.0;
};

/// Two groups: matrices decay, vectors and scalars (norms, biases) do not.
HEED_API std::vector<ParameterGroup> decay_groups(const std::vector<NamedTensor>& parameters,
                                                  double weight_decay);

enum class OptimizerKind {
  sgd,    ///< momentum optional; decay is added to the gradient
  adam,   ///< decay is added to the gradient
  adamw,  ///< decay is taken off the weights directly
};

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double momentum = 0.0;  ///< sgd
  bool nesterov = false;  ///< sgd
};

/// Updates parameters from their grad(), in one pass over parameter, gradient and state. A
/// parameter of f16 or bf16 has an f32 master copy here, and is rounded from it. Results do not
/// depend on the thread count.
class HEED_API Optimizer {
 public:
  Optimizer(std::vector<ParameterGroup> groups, const OptimizerOptions& options);
  Optimizer(const std::vector<NamedTensor>& parameters, const OptimizerOptions& options);
  /// All parameters of a Scope or a Model.
  template <class P>
  requires std::is_same_v<P, Parameter>  // never from a list in braces, which names NamedTensors
  Optimizer(const std::vector<P>& parameters, const OptimizerOptions& options)
      : Optimizer(named_tensors(parameters), options) {}

  /// One update with gradients times `grad_scale` (clipping, loss scaling). Parameters without a
  /// gradient are left alone.
  void step(double grad_scale = 1.0);
  /// Drops all gradients.
  void zero_grad();
  /// Norm over all gradients, summed in a fixed order in f64; NaN or infinity where one is in
  /// there.
  double grad_norm() const;

  double lr() const { return options_.lr; }
  void set_lr(double lr);
  int64_t steps() const { return steps_; }
  const OptimizerOptions& options() const { return options_; }

  /// "step", and by parameter "exp_avg.<name>" and "exp_avg_sq.<name>" (adam, adamw),
  /// "momentum.<name>" (sgd), "master.<name>" (f16, bf16), and "step.<name>" where it was left out
  /// of some updates. The tensors share memory with the optimizer.
  std::map<std::string, Tensor, std::less<>> state() const;
  /// Copies a state back in; an unknown name or a wrong shape is an error that lists all of them.
  void load_state(const std::map<std::string, Tensor, std::less<>>& state);

 private:
  struct Slot {
    std::string name;
    Tensor value;
    double weight_decay = 0.0;
    double lr_scale = 1.0;
    int64_t steps = 0;
    Tensor first;   // mean of gradients, or momentum
    Tensor second;  // mean of squared gradients
    Tensor master;  // f32 weights behind f16 and bf16
  };
  void prepare(Slot& slot) const;

  OptimizerOptions options_;
  std::vector<Slot> slots_;
  int64_t steps_ = 0;
};

/// Scales all gradients so that their global norm is at most `max_norm`; returns the norm before.
/// Optimizer::grad_norm() and step(grad_scale) do the same without a pass over memory. Nothing is
/// scaled where the norm is not finite.
HEED_API double clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm);

enum class ScheduleKind { constant, cosine, linear, inverse_sqrt };
HEED_API ScheduleKind schedule_from_name(const std::string& name);
HEED_API const char* name_of(ScheduleKind kind);

/// The learning rate of an update: a linear warm-up to `peak`, then by kind.
struct Schedule {
  ScheduleKind kind = ScheduleKind::cosine;
  double peak = 1e-3;
  int64_t warmup = 0;
  int64_t total = 0;   ///< updates of the run; cosine and linear end there
  double floor = 0.0;  ///< fraction of the peak that cosine and linear end at
  /// Of update number `step`, counted from 1.
  HEED_API double lr(int64_t step) const;
};

// Metrics -----------------------------------------------------------------------------------------

/// BLEU of a whole set by sacreBLEU's definition: 13a tokens, n-grams up to 4, exponential
/// smoothing, one reference per sentence, case kept.
struct Bleu {
  double score = 0.0;         ///< 0 … 100
  double precisions[4] = {};  ///< of n-grams, in percent
  double brevity = 0.0;       ///< penalty for results shorter than the references
  int64_t result_tokens = 0;
  int64_t reference_tokens = 0;
};
HEED_API Bleu corpus_bleu(const std::vector<std::string>& results,
                          const std::vector<std::string>& references);
/// The tokens that BLEU counts: mteval's international tokenisation 13a.
HEED_API std::vector<std::string> tokenize_13a(std::string_view line);

/// chrF2 by sacreBLEU's definition: n-grams of up to 6 characters without white space. 0 … 100.
HEED_API double corpus_chrf(const std::vector<std::string>& results,
                            const std::vector<std::string>& references);

/// Fraction of the results that equal the reference, ignoring leading and trailing white space.
HEED_API double exact_match(const std::vector<std::string>& results,
                            const std::vector<std::string>& references);

/// Words that were put in, left out or changed, as a fraction of the references' words. Words are
/// compared in lower case and without punctuation at their ends.
HEED_API double word_error_rate(const std::vector<std::string>& results,
                                const std::vector<std::string>& references);

/// Scores of one class.
struct ClassScore {
  double precision = 0.0;  ///< 0 where the class was never predicted
  double recall = 0.0;     ///< 0 where the class does not occur
  double f1 = 0.0;
  int64_t support = 0;    ///< how often the class is the true one
  int64_t predicted = 0;  ///< how often it was predicted
};

struct ClassScores {
  double accuracy = 0.0;
  double macro_f1 = 0.0;   ///< mean over the classes that occur among the true or predicted ones
  double binary_f1 = 0.0;  ///< of class 1, where there are two classes
  std::vector<ClassScore> classes;
  /// confusion[truth][predicted]: how often. Empty for more than 1000 classes.
  std::vector<std::vector<int64_t>> confusion;
};
HEED_API ClassScores class_scores(const std::vector<int64_t>& truth,
                                  const std::vector<int64_t>& predicted, int64_t classes);

// Trainer -----------------------------------------------------------------------------------------

/// One step of a training run.
struct TrainProgress {
  int64_t step = 0;   ///< counted from 1
  int64_t steps = 0;  ///< of the whole run
  double loss = 0.0;
  double validation = 0.0;  ///< loss of the last evaluation; 0: none yet
  double norm = 0.0;        ///< of the gradient, before clipping
  double lr = 0.0;
  bool finite = true;              ///< false: loss or gradient was not, and the update was skipped
  double seconds = 0.0;            ///< of this step
  double tokens_per_second = 0.0;  ///< 0: the examples have no tokens
  double examples_per_second = 0.0;
  // Of several ranks: how long their gradients were under way, and waited for.
  double sum_seconds = 0.0;
  double sum_wait_seconds = 0.0;
};

/// The loss of a batch whose inputs are in `input`.
using LossFunction = std::function<Tensor(const Model& model, const ModelInput& input)>;

/// How a Trainer trains.
struct TrainerOptions {
  int64_t steps = 0;        ///< updates; 0: `epochs` passes over the data
  int64_t epochs = 1;       ///< used where `steps` is 0
  int64_t micro_batch = 0;  ///< examples per forward pass, the same result; 0: the whole batch
  double lr = 1e-3;         ///< peak
  ScheduleKind schedule = ScheduleKind::cosine;
  int64_t warmup = 100;        ///< steps, at most half of the run
  double weight_decay = 0.01;  ///< of matrices
  double beta1 = 0.9;
  double beta2 = 0.98;
  double clip = 1.0;  ///< largest gradient norm; 0: any
  double label_smoothing = 0.0;
  uint64_t seed = 0;                     ///< of dropout
  DType precision = DType::f32;          ///< of activations: f32, bf16 or f16
  double ema = 0.0;                      ///< decay of a moving average of the weights; 0: none
  std::vector<std::string> freeze = {};  ///< beginnings of parameter names that stay as they are
  bool shard_optimizer = false;  ///< divides the optimizer's state among the ranks (ZeRO stage 1)
  LossFunction loss = nullptr;   ///< empty: the model's own, model.forward(input).loss
};

/// Trains a model on the batches of a loader: AdamW with a learning rate schedule, gradient
/// accumulation, clipping, mixed precision and a moving average of the weights.
///
///   Trainer trainer(*model, *loader, {.steps = 1000, .lr = 3e-4});
///   trainer.on_step([](const TrainProgress& p) { std::cout << p.step << ' ' << p.loss << '\n'; });
///   trainer.on_every(100, [&](Trainer& t) { std::cout << t.evaluate(*validation) << '\n'; });
///   trainer.run();
///
/// The same options give bit-identical weights for any thread count. Under mpirun
/// every rank makes one with a loader for its rank. train() (heed/train.h) adds run folders,
/// checkpoints and metrics. For a loop of your own use backward() and Optimizer (heed/train.h).
///
/// Thread safety: one thread at a time; nothing else may use the model meanwhile.
class HEED_API Trainer {
 public:
  struct Impl;
  /// The model and the loader must outlive it. Throws if an option makes no sense, or if `freeze`
  /// names no parameter or all of them.
  Trainer(Model& model, Loader& loader, const TrainerOptions& options = {});
  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) = delete;

  /// Calls `callback` after every step.
  void on_step(std::function<void(const TrainProgress&)> callback);
  /// Calls `callback` after every `steps` steps and after the last one, in the order of the calls.
  void on_every(int64_t steps, std::function<void(Trainer&)> callback);

  /// Takes the next batch and makes one update; without callbacks. Throws after ten steps in a row
  /// whose loss or gradient is not finite.
  TrainProgress step();
  /// Makes all steps that are left. Ends after the present one if stop() was called or `stop` was
  /// requested, on any rank; a single process gives a step up whose passes are under way.
  void run(const std::stop_token& stop = {});
  /// Ends run() after this step; for callbacks.
  void stop();

  int64_t steps_done() const;
  int64_t steps() const;     ///< of the whole run
  bool interrupted() const;  ///< whether a stop_token ended run() before the last step
  Optimizer& optimizer();
  const Model& model() const;
  /// Mean loss over a loader that runs once through (shuffle off), with the averaged weights where
  /// there are any.
  double evaluate(const Loader& loader) const;
  /// Copies the averaged weights into the model; nothing without `ema`.
  void apply_ema();

 private:
  friend struct TrainerAccess;
  std::unique_ptr<Impl> impl_;
};

// Training runs -----------------------------------------------------------------------------------

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
