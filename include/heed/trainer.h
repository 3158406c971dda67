#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "heed/data.h"
#include "heed/export.h"
#include "heed/models.h"
#include "heed/optim.h"

namespace heed {

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
/// checkpoints and metrics. For a loop of your own use backward() and Optimizer (heed/optim.h).
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

}  // namespace heed
