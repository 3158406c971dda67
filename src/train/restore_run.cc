#include "train/restore_run.h"

#include "train/ranks.h"
#include "train/resume_options.h"
#include "train/trainer_impl.h"

namespace heed {
namespace {

/// Throws where options or data are not those that the run began with. Said before weights are
/// read: another vocabulary would look like damage.
void accept(const RunState& before, const TrainOptions& options, Task& task) {
  check_same_run(before.options, options);
  try {
    task.train->restore(before.loader);
  } catch (const Error& error) {
    throw Error(error.kind(), options.data + ": " + error.what());
  }
}

}  // namespace

bool restore_run(const RunFolder& folder, const TrainOptions& options, Task& task, Trainer& trainer,
                 RunState& state) {
  Trainer::Impl& the = TrainerAccess::impl(trainer);
  TensorMap moments;
  std::optional<RunState> restored;
  if (folder.writes()) {
    restored = folder.restore(
        *task.model, [&](const RunState& before) { accept(before, options, task); },
        [&](const TensorMap& found) {
          the.parallel.load_state(the.optimizer, found);
          moments = found;
        },
        the.ema);
  }
  if (the.ranks.broadcast(std::string(restored ? "found" : "")).empty()) {
    return false;
  }
  state = restored.value_or(RunState());
  if (the.ranks.size() > 1) {
    broadcast_run(the.ranks, *task.model, state);
    broadcast_tensors(the.ranks, moments);
    the.parallel.load_state(the.optimizer, moments);
    TensorMap averages = the.ema.state();
    broadcast_tensors(the.ranks, averages);
    the.ema.load_state(averages);
  }
  task.train->restore(state.loader);
  the.done = state.step;
  the.loss = state.loss;
  the.loss_scale = state.loss_scale;
  return true;
}

}  // namespace heed
