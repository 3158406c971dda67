#include <algorithm>

#include "base/check.h"
#include "base/file.h"
#include "base/language.h"
#include "base/print_message.h"
#include "heed/runtime.h"
#include "heed/train.h"
#include "train/best_model.h"
#include "train/memory_plan.h"
#include "train/ranks.h"
#include "train/restore_run.h"
#include "train/resume_options.h"
#include "train/run_report.h"
#include "train/trainer_impl.h"

// A Trainer with a folder: options, checkpoints, logs, evaluations and the best model.

namespace heed {
namespace {

TrainerOptions trainer_options(const TrainOptions& o, const Task& task) {
  TrainerOptions options;
  options.steps = o.steps;
  options.epochs = o.epochs;
  options.micro_batch = o.micro_batch;
  options.lr = o.lr;
  options.schedule = schedule_from_name(o.schedule);
  options.warmup = o.warmup;
  options.weight_decay = o.weight_decay;
  options.clip = o.clip;
  options.label_smoothing = o.label_smoothing;
  options.seed = o.seed;
  options.precision = dtype_from_name(o.precision);
  options.ema = o.ema;
  options.freeze = o.freeze;
  options.shard_optimizer = o.shard_optimizer;
  options.loss = task.loss;
  return options;
}

class TrainingRun {
 public:
  TrainingRun(const TrainOptions& options, const TrainCallbacks& callbacks, Communicator& ranks)
      : options_(options),
        callbacks_(callbacks),
        ranks_(ranks),
        folder_(options.out, options.resume, ranks.is_root()),
        task_(make_task_together(ranks, options)),
        trainer_(*task_.model, *task_.train, trainer_options(options, task_)),
        log_(folder_, options.quiet || !ranks.is_root()),
        best_(options, task_, folder_, log_, state_, ranks) {
    check_same_data(ranks, task_, options);
    log_.say(describe(task_, trainer_.steps()));  // before the first passes, which may take a while
    TrainOptions own = options;                   // of this rank
    own.batch = (options.batch + ranks.size() - 1) / ranks.size();
    const MemoryPlan plan = plan_memory(task_, own);
    check_memory(plan, options, available_memory() / ranks.local_size());
    log_.say(describe(plan));
  }

  TrainResult run() {
    if (callbacks_.on_start) {
      callbacks_.on_start();
    }
    manual_seed(options_.seed);
    start();
    register_callbacks();
    if (!best_.out_of_patience()) {
      trainer_.run(callbacks_.stop);
    }
    if (trainer_.interrupted()) {
      tell_stopping();
    }
    if (trainer_.steps_done() != saved_) {
      save();
    }
    log_.finish();
    return finish();
  }

 private:
  void start() {
    if (options_.resume) {
      if (!restore_run(folder_, options_, task_, trainer_, state_)) {
        log_.say(tell("there is no checkpoint yet: the run begins anew"));
      } else if (state_.ranks != ranks_.size()) {
        warn_of_ranks();
      }
      // What a killed run wrote after its last checkpoint comes again.
      folder_.cut_lines("metrics.jsonl", state_.step);
      folder_.cut_lines("samples.jsonl", state_.step);
    }
    saved_ = state_.step;
    state_.options = options_that_must_match(options_);
    state_.ranks = ranks_.size();
    if (folder_.writes()) {
      write_file_atomically(folder_.path() / "config.toml", dump_train_options(options_));
    }
    log_.open(state_.step);
  }

  void warn_of_ranks() const {
    if (ranks_.is_root()) {
      print_message(tell(
          "heed: warning: {}",
          tell("{} ranks before and {} now: equal up to rounding", state_.ranks, ranks_.size())));
    }
  }

  void tell_stopping() {
    if (callbacks_.on_stopping && !told_stopping_) {
      callbacks_.on_stopping();
    }
    told_stopping_ = true;
  }

  void register_callbacks() {
    trainer_.on_step([this](const TrainProgress& progress) {
      state_.step = progress.step;
      log_.step(progress);
      if (callbacks_.on_step) {
        callbacks_.on_step(progress);
      }
      if (TrainerAccess::impl(trainer_).interrupted) {
        tell_stopping();
      }
    });
    const int64_t tenth = std::max<int64_t>(1, trainer_.steps() / 10);
    trainer_.on_every(options_.eval_every > 0 ? options_.eval_every : tenth,
                      [this](Trainer& trainer) {
                        const EmaScope average(TrainerAccess::impl(trainer).ema);
                        best_.evaluate_now();
                        if (best_.out_of_patience()) {
                          trainer.stop();
                        }
                      });
    trainer_.on_every(options_.checkpoint_every > 0 ? options_.checkpoint_every : tenth,
                      [this](Trainer&) { save(); });
  }

  void save() {
    Trainer::Impl& the = TrainerAccess::impl(trainer_);
    state_.step = the.done;
    state_.loss = the.loss;
    state_.loss_scale = the.loss_scale;
    state_.random = random_state();
    state_.loader = task_.train->state();
    the.parallel.check_weights();
    folder_.save(*task_.model, the.parallel.state(the.optimizer), the.ema, state_, options_.keep);
    saved_ = the.done;
  }

  TrainResult finish() {
    Trainer::Impl& the = TrainerAccess::impl(trainer_);
    TrainResult result;
    const bool early = best_.out_of_patience() && the.done < the.steps;
    result.interrupted = trainer_.interrupted() && !early;
    result.rank = ranks_.rank();
    if (early) {
      log_.say(tell("stopped early at step {}: the best model is that of step {}", state_.step,
                    state_.best_step));
    }
    check(state_.best_step > 0 || result.interrupted || (!task_.validation && the.skips == 0),
          "train", "the loss is not finite: there is no model to keep; try a lower learning rate");
    if (state_.best_step == 0) {
      const EmaScope average(the.ema);
      best_.save();
    } else if (!result.interrupted) {
      best_.evaluate_kept(result);
    }
    result.steps = state_.step;
    result.loss = the.loss;
    result.val_loss = state_.best;
    result.best_by = state_.best_step > 0 ? options_.best_by : "";
    result.samples = best_.take_samples();
    if (!result.interrupted && folder_.writes()) {
      log_.report(report_run(folder_.path(), result));
    }
    return result;
  }

  const TrainOptions& options_;
  const TrainCallbacks& callbacks_;
  Communicator& ranks_;
  RunFolder folder_;
  Task task_;
  Trainer trainer_;
  RunLog log_;
  RunState state_;
  BestModel best_;
  int64_t saved_ = 0;  // step of the last checkpoint
  bool told_stopping_ = false;
};

}  // namespace

TrainResult train(const TrainOptions& given, const TrainCallbacks& callbacks) {
  if (given.resume && given.task.empty()) {
    if (given.out.empty()) {
      fail(ErrorKind::usage, "out", "is missing: the run folder to resume");
    }
    fail(ErrorKind::usage, given.out.native(), "holds no run that could be resumed");
  }
  if (given.task.empty()) {
    fail(ErrorKind::usage, "task", "is missing: what to learn, such as lm or classify");
  }
  if (given.data.empty()) {
    fail(ErrorKind::usage, "data", "is missing: the files or folders to train on");
  }
  if (given.out.empty()) {
    fail(ErrorKind::usage, "out", "is missing: the run folder to write");
  }
  check_train_options(given);
  const TrainOptions options = resolve_train_options(given);
  Communicator& ranks = world();
  try {
    meet(ranks, options);
    return TrainingRun(options, callbacks, ranks).run();
  } catch (const std::exception& error) {
    if (ranks.size() > 1) {
      abort_all(ranks, error, callbacks.exit_code ? callbacks.exit_code(error) : EXIT_FAILURE);
    }
    throw;
  }
}

}  // namespace heed
