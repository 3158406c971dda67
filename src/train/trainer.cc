#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>

#include "base/check.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/language.h"
#include "heed/optim.h"
#include "heed/train.h"
#include "train/data_parallel.h"
#include "train/ema.h"
#include "train/evaluate.h"
#include "train/lora.h"
#include "train/memory_plan.h"
#include "train/ranks.h"
#include "train/resume_options.h"
#include "train/run_folder.h"
#include "train/run_log.h"
#include "train/run_report.h"
#include "train/snapshot.h"
#include "train/task.h"

namespace heed {
namespace {

constexpr int kMaxSkips = 10;          // steps in a row without a finite gradient
constexpr int kStepStreams = 16;       // a step has 2^16 random streams
constexpr int64_t kVerifyEvery = 100;  // steps between comparisons of the ranks' weights

constexpr unsigned kSecondsToAgree = 30;  // after a signal, for ranks to end their step together

volatile std::sig_atomic_t g_interrupted = 0;
volatile std::sig_atomic_t g_several_ranks = 0;

/// A launcher that lost a rank sends this to the others, which wait for the lost one: they end by
/// the alarm. It is called off where the ranks agree to stop.
void on_signal(int) {
  g_interrupted = 1;
  if (g_several_ranks != 0) {
    alarm(kSecondsToAgree);
  }
}

/// SIGINT and SIGTERM end the run after the step; the handlers before come back at the end.
class SignalScope {
 public:
  SignalScope() {
    g_interrupted = 0;
    interrupt_ = std::signal(SIGINT, on_signal);
    terminate_ = std::signal(SIGTERM, on_signal);
  }
  ~SignalScope() {
    std::signal(SIGINT, interrupt_);
    std::signal(SIGTERM, terminate_);
  }
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;

 private:
  void (*interrupt_)(int);
  void (*terminate_)(int);
};

std::vector<NamedTensor> trainable(const Model& model, const std::vector<std::string>& freeze) {
  std::vector<NamedTensor> result;
  const std::vector<Parameter> all = model.trainable_parameters();
  for (const std::string& beginning : freeze) {
    if (std::none_of(all.begin(), all.end(),
                     [&](const Parameter& each) { return each.name.starts_with(beginning); })) {
      fail(ErrorKind::usage, "--freeze", "no parameter's name begins with '{}'; the first is '{}'",
           beginning, all.front().name);
    }
  }
  for (const Parameter& parameter : all) {
    bool frozen = false;
    for (const std::string& beginning : freeze) {
      frozen = frozen || parameter.name.starts_with(beginning);
    }
    Tensor tensor = parameter.tensor;
    tensor.set_requires_grad(!frozen);
    if (!frozen) {
      result.emplace_back(parameter.name, tensor);
    }
  }
  if (result.empty()) {
    fail(ErrorKind::usage, "--freeze", "leaves nothing to train");
  }
  return result;
}

class Trainer {
 public:
  Trainer(const TrainOptions& options, Communicator& ranks)
      : options_(options),
        ranks_(ranks),
        folder_(options.out, options.resume, ranks.is_root()),
        task_(make_task_together(ranks, options)),
        parameters_(trainable(*task_.model, options.freeze)),
        parallel_(ranks, parameters_, options.shard_optimizer),
        optimizer_(parallel_.groups(options.weight_decay), {.lr = options.lr, .beta2 = 0.98}),
        ema_(parameters_, options.ema),
        log_(folder_, options.quiet || !ranks.is_root(), options.best_by),
        activations_(dtype_from_name(options.precision)) {
    check_same_data(ranks, task_, options);
    state_.loss_scale = LossScale::for_type(activations_);
    steps_ = options.steps > 0 ? options.steps : options.epochs * task_.train->steps_per_epoch();
    check(steps_ > 0, "train", "there is nothing to do: 0 steps");
    eval_every_ = options.eval_every > 0 ? options.eval_every : std::max<int64_t>(1, steps_ / 10);
    checkpoint_every_ =
        options.checkpoint_every > 0 ? options.checkpoint_every : std::max<int64_t>(1, steps_ / 10);
    log_.say(describe(task_, steps_));  // before the first passes, which may take a while
    TrainOptions share = options;       // of this rank
    share.batch = (options.batch + ranks.size() - 1) / ranks.size();
    const MemoryPlan plan = plan_memory(task_, share);
    check_memory(plan, options, available_memory() / ranks.local_size());
    log_.say(describe(plan));
    schedule_ = {schedule_from_name(options.schedule), options.lr,
                 std::min(options.warmup, steps_ / 2), steps_, 0.1};
  }

  TrainResult run() {
    const SignalScope signals;
    g_several_ranks = ranks_.size() > 1;
    manual_seed(options_.seed);
    start();
    TrainResult result;
    int skips = 0;
    bool leaves = false;
    while (state_.step < steps_ && !stopped() && !leaves) {
      const double begin = seconds_now();
      const StepOutcome outcome = step();
      skips = outcome.finite || outcome.rescaled ? 0 : skips + 1;
      check(skips < kMaxSkips, "train",
            "{} steps in a row had a loss or gradient that is not finite; try a lower --lr", skips);
      state_.loss = std::isfinite(outcome.loss) ? outcome.loss : state_.loss;
      report(outcome, seconds_now() - begin);
      const bool last = state_.step == steps_;
      if (last || state_.step % eval_every_ == 0) {
        evaluate_weights();
      }
      leaves = interrupted();  // looked at once: a later signal ends the run after another step
      if (last || stopped() || leaves || state_.step % checkpoint_every_ == 0) {
        save();
      }
    }
    log_.finish();
    result.interrupted = leaves && state_.step < steps_ && !stopped();
    result.rank = ranks_.rank();
    if (stopped() && state_.step < steps_) {
      log_.say(tell("stopped early at step {}: the best model is that of step {}", state_.step,
                    state_.best_step));
    }
    check(state_.best_step > 0 || result.interrupted || (!task_.validation && skips == 0), "train",
          "the loss is not finite: there is no model to keep; try a lower --lr");
    if (state_.best_step == 0) {
      const EmaScope average(ema_);
      save_best();
    } else if (!result.interrupted) {
      evaluate_best(result);
    }
    result.steps = state_.step;
    result.loss = state_.loss;
    result.val_loss = state_.best;
    result.best_by = state_.best_step > 0 ? options_.best_by : "";
    result.samples = std::move(samples_);
    if (!result.interrupted && folder_.writes()) {
      log_.report(report_run(folder_.path(), result));
    }
    return result;
  }

 private:
  struct StepOutcome {
    double loss = 0.0;
    double norm = 0.0;
    int64_t tokens = 0;
    bool finite = true;
    bool rescaled = false;  // an overflow of f16 that a smaller loss scale mends
    double waited = 0.0;    // for other ranks' gradients
    double busy = 0.0;      // while gradients were under way
  };

  /// One process stops at once; ranks stop where all have heard of it.
  bool interrupted() const { return ranks_.size() == 1 ? g_interrupted != 0 : agreed_; }

  void start() {
    if (options_.resume) {
      restore();
    }
    state_.options = options_that_must_match(options_);
    if (folder_.writes()) {
      write_file_atomically(folder_.path() / "config.toml", dump_train_options(options_));
    }
    log_.open(state_.step);
  }

  /// Throws where options or data are not those that the run began with. Said before weights are
  /// read: another vocabulary would look like damage.
  void accept(const RunState& before) {
    check_same_run(before.options, options_);
    try {
      task_.train->restore(before.loader);
    } catch (const Error& error) {
      throw Error(error.kind(), options_.data + ": " + error.what());
    }
  }

  /// Rank 0 reads the last checkpoint; the others get it from there.
  void restore() {
    TensorMap moments;
    std::optional<RunState> restored;
    if (folder_.writes()) {
      restored = folder_.restore(
          *task_.model, [this](const RunState& before) { accept(before); },
          [&](const TensorMap& found) {
            parallel_.load_state(optimizer_, found);
            moments = found;
          },
          ema_);
    }
    if (ranks_.broadcast(std::string(restored ? "found" : "")).empty()) {
      log_.say(tell("there is no checkpoint yet: the run begins anew"));
      cut_logs();
      return;
    }
    state_ = restored.value_or(RunState());
    if (ranks_.size() > 1) {
      broadcast_run(ranks_, *task_.model, state_);
      broadcast_tensors(ranks_, moments);
      parallel_.load_state(optimizer_, moments);
      TensorMap averages = ema_.state();
      broadcast_tensors(ranks_, averages);
      ema_.load_state(averages);
    }
    task_.train->restore(state_.loader);
    cut_logs();
  }

  /// What a killed run wrote after its last checkpoint comes again.
  void cut_logs() const {
    folder_.cut_lines("metrics.jsonl", state_.step);
    folder_.cut_lines("samples.jsonl", state_.step);
  }

  StepOutcome step() {
    const Batch batch = task_.train->next();
    StepOutcome outcome;
    const int64_t first = options_.batch * ranks_.rank() / ranks_.size();
    const int64_t micro = options_.micro_batch > 0 ? options_.micro_batch : batch.rows;
    double part_loss = 0.0;
    for (int64_t begin = 0; begin < batch.rows; begin += micro) {
      const Batch part = micro >= batch.rows
                             ? batch
                             : batch_rows(batch, begin, std::min(begin + micro, batch.rows));
      if (part.targets == 0) {
        continue;  // a mean over nothing
      }
      // Each part counts by its targets among those of all ranks, and draws for its own examples:
      // neither micro-batches nor the number of ranks change what a step computes.
      const double share =
          static_cast<double>(part.targets) / static_cast<double>(batch.global_targets);
      set_random_state({options_.seed, static_cast<uint64_t>(state_.step) << kStepStreams});
      const ActivationScope precision(activations_);
      ModelInput input = to_input(part, options_, true);
      input.first_example = first + begin;
      const Tensor loss = loss_of(task_, *task_.model, input);
      part_loss += loss.item() * share;
      if (begin + micro >= batch.rows) {
        parallel_.last_pass();
      }
      const double factor = share * state_.loss_scale.scale;
      backward(factor == 1.0 ? loss : mul(loss, factor));
    }
    const StepSums sums = parallel_.finish(optimizer_, part_loss, static_cast<double>(batch.tokens),
                                           g_interrupted != 0);
    agreed_ = sums.interrupted;
    if (agreed_) {
      alarm(0);
    }
    outcome.loss = sums.loss;
    outcome.tokens = static_cast<int64_t>(sums.tokens);
    const double scale = state_.loss_scale.scale;
    outcome.norm = sums.norm / scale;
    outcome.waited = sums.waited;
    outcome.busy = sums.busy;
    outcome.finite = std::isfinite(outcome.norm) && std::isfinite(outcome.loss);
    ++state_.step;
    optimizer_.set_lr(schedule_.lr(state_.step));
    if (outcome.finite) {
      const bool clips = options_.clip > 0.0 && outcome.norm > options_.clip;
      optimizer_.step((clips ? options_.clip / outcome.norm : 1.0) / scale);
      parallel_.share_weights();
      ema_.update(state_.step);
    }
    if (activations_ == DType::f16) {
      outcome.rescaled = state_.loss_scale.update(outcome.finite);
    }
    optimizer_.zero_grad();
    if (state_.step % kVerifyEvery == 0) {
      parallel_.check_weights();
    }
    return outcome;
  }

  void report(const StepOutcome& outcome, double seconds) {
    Progress progress{state_.step, steps_, outcome.loss};
    progress.norm = outcome.norm;
    progress.lr = optimizer_.lr();
    progress.seconds = seconds;
    progress.tokens_per_second = static_cast<double>(outcome.tokens) / seconds;
    progress.examples_per_second = static_cast<double>(options_.batch) / seconds;
    progress.sum_seconds = outcome.busy;
    progress.sum_wait_seconds = outcome.waited;
    log_.step(progress, outcome.finite);
  }

  /// Evaluates the weights (their average where there is one), and keeps them where they are the
  /// best.
  void evaluate_weights() {
    const EmaScope average(ema_);
    if (!task_.validation) {
      try {
        samples_ = make_samples(*task_.model, task_, options_, sample_seed());
        log_.samples(state_.step, samples_);
      } catch (const Error& error) {  // logits that are not finite; the next steps tell
        log_.say(tell("no sample at step {}: {}", state_.step, error.what()));
      }
    } else {
      Evaluation found =
          evaluate(*task_.model, task_, options_, options_.eval_texts, sample_seed());
      const bool better = state_.best_step == 0 || found.score > state_.best_score ||
                          (found.score == state_.best_score && found.loss < state_.best);
      const bool best = std::isfinite(found.loss) && better;
      ++state_.stale;
      if (best) {
        state_.best = found.loss;
        state_.best_score = found.score;
        state_.best_step = state_.step;
        state_.stale = 0;
        best_ = found;
        save_best();
      }
      log_.evaluation(state_.step, found, best, false);
      samples_ = std::move(found.samples);
    }
    if (options_.probes > 0 && folder_.writes()) {
      save_snapshot(
          *task_.model, task_, options_, state_.step,
          folder_.path() / "snapshots" / fmt::format("step-{:06}.safetensors", state_.step));
    }
  }

  uint64_t sample_seed() const { return options_.seed + static_cast<uint64_t>(state_.step); }

  /// Whether --patience has run out.
  bool stopped() const { return options_.patience > 0 && state_.stale >= options_.patience; }

  /// The metrics of the model that is kept; over all texts where evaluations looked at some.
  void evaluate_best(TrainResult& result) {
    const bool generates =
        task_.metric == TaskMetric::translation || task_.metric == TaskMetric::captions;
    const bool whole = !generates || options_.eval_texts == 0 ||
                       options_.eval_texts >= task_.validation->examples();
    if (!whole || best_.loss != state_.best) {  // looked at in part, or before the run went on
      const std::unique_ptr<Model> best =
          ranks_.size() == 1 ? load_model(folder_.path() / "model") : best_everywhere();
      best_ = evaluate(best ? *best : *task_.model, task_, options_, 0, sample_seed());
    }
    result.metrics = best_.metrics;
    result.classes = best_.classes;
    result.labels = task_.labels;
    log_.evaluation(state_.step, best_, true, true);
  }

  /// The model folder's model on all ranks, which evaluate it together; null where its adapter has
  /// gone into the run's own model.
  std::unique_ptr<Model> best_everywhere() {
    TensorMap tensors;
    if (folder_.writes()) {
      tensors = load_trained(*task_.model, folder_.path() / "model");
    }
    broadcast_tensors(ranks_, tensors);
    if (!task_.model->adapted_layers().empty()) {
      set_trained(*task_.model, tensors);
      return nullptr;
    }
    return build_model(task_.model->config(), std::move(tensors), "model");
  }

  /// The model folder: the best so far, or the last where nothing was validated.
  void save_best() const {
    if (!folder_.writes()) {
      return;
    }
    const std::filesystem::path folder = folder_.path() / "model";
    save_trained(*task_.model, folder, options_);
    if (task_.tokenizer) {
      task_.tokenizer.save(folder);
    }
    if (!task_.preprocessor.empty()) {
      write_file_atomically(folder / "preprocessor_config.json", task_.preprocessor);
    }
  }

  void save() {
    state_.random = random_state();
    state_.loader = task_.train->state();
    parallel_.check_weights();
    folder_.save(*task_.model, parallel_.state(optimizer_), ema_, state_, options_.keep);
  }

  const TrainOptions& options_;
  Communicator& ranks_;
  RunFolder folder_;
  Task task_;
  std::vector<NamedTensor> parameters_;
  DataParallel parallel_;
  Optimizer optimizer_;
  Ema ema_;
  RunLog log_;
  DType activations_;
  Schedule schedule_;
  RunState state_;
  Evaluation best_;
  std::vector<TrainSample> samples_;
  int64_t steps_ = 0;
  int64_t eval_every_ = 1;
  int64_t checkpoint_every_ = 1;
  bool agreed_ = false;
};

}  // namespace

TrainResult train(const TrainOptions& given) {
  if (given.out.empty() || given.data.empty() || given.task.empty()) {
    fail(ErrorKind::usage, "train", "needs --task, --data and --out");
  }
  check_train_options(given);
  const TrainOptions options = resolve_train_options(given);
  Communicator& ranks = world();
  try {
    meet(ranks, options);
    return Trainer(options, ranks).run();
  } catch (const std::exception& error) {
    if (ranks.size() > 1) {
      abort_all(ranks, error);
    }
    throw;
  }
}

}  // namespace heed
