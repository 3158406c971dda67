#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "dist/communicator.h"
#include "heed/ops.h"
#include "heed/train.h"
#include "train/data_parallel.h"
#include "train/ema.h"

namespace heed {

/// A Trainer's state, which a run folder saves and restores.
struct Trainer::Impl {
  Impl(Model& model, Loader& loader, const TrainerOptions& options);

  /// Forward and backward passes of one batch; returns this rank's part of the loss.
  double accumulate(const Batch& batch);
  /// One step; nothing where `stop` came in the middle of its passes, which are then given up.
  std::optional<TrainProgress> update();

  Model& model;
  Loader& loader;
  TrainerOptions options;
  Communicator& ranks;
  std::vector<NamedTensor> parameters;  // those that are trained
  DataParallel parallel;
  Optimizer optimizer;
  Ema ema;
  Schedule schedule;
  LossScale loss_scale;
  int64_t steps = 0;
  int64_t done = 0;
  double loss = 0.0;  // of the last step whose loss was finite
  int skips = 0;      // steps in a row without a finite gradient
  std::stop_token stop;
  bool stopping = false;     // after this step
  bool interrupted = false;  // by `stop`, on any rank
  std::vector<std::function<void(const TrainProgress&)>> on_step;
  std::vector<std::pair<int64_t, std::function<void(Trainer&)>>> on_every;
};

struct TrainerAccess {
  static Trainer::Impl& impl(Trainer& trainer) { return *trainer.impl_; }
  static const Trainer::Impl& impl(const Trainer& trainer) { return *trainer.impl_; }
};

}  // namespace heed
