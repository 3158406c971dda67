#include <chrono>
#include <cmath>
#include <csignal>

#include "base/check.h"
#include "base/file.h"
#include "heed/optim.h"
#include "heed/train.h"
#include "train/ema.h"
#include "train/evaluate.h"
#include "train/memory_plan.h"
#include "train/run_folder.h"
#include "train/run_log.h"
#include "train/snapshot.h"
#include "train/task.h"

namespace heed {
namespace {

constexpr int kMaxSkips = 10;  // steps in a row without a finite gradient

volatile std::sig_atomic_t g_interrupted = 0;

/// SIGINT and SIGTERM end the run after the step; the handlers before come back at the end.
class SignalScope {
 public:
  SignalScope() {
    g_interrupted = 0;
    interrupt_ = std::signal(SIGINT, [](int) { g_interrupted = 1; });
    terminate_ = std::signal(SIGTERM, [](int) { g_interrupted = 1; });
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

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<NamedTensor> trainable(const Model& model, const std::vector<std::string>& freeze) {
  std::vector<NamedTensor> result;
  for (const Parameter& parameter : model.parameters()) {
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
  explicit Trainer(const TrainOptions& options)
      : options_(options),
        folder_(options.out, options.resume),
        task_(make_task(options)),
        parameters_(trainable(*task_.model, options.freeze)),
        optimizer_(decay_groups(parameters_, options.weight_decay),
                   {.lr = options.lr, .beta2 = 0.98}),
        ema_(parameters_, options.ema),
        log_(folder_, options.quiet),
        activations_(dtype_from_name(options.precision)) {
    state_.loss_scale = LossScale::for_type(activations_);
    steps_ = options.steps > 0 ? options.steps : options.epochs * task_.train->steps_per_epoch();
    check(steps_ > 0, "train", "there is nothing to do: 0 steps");
    eval_every_ = options.eval_every > 0 ? options.eval_every : std::max<int64_t>(1, steps_ / 10);
    checkpoint_every_ =
        options.checkpoint_every > 0 ? options.checkpoint_every : std::max<int64_t>(1, steps_ / 10);
    const MemoryPlan plan = plan_memory(task_, options);
    check_memory(plan, options, available_memory());
    log_.say(describe(plan));
    schedule_ = {schedule_from_name(options.schedule), options.lr,
                 std::min(options.warmup, steps_ / 2), steps_, 0.1};
  }

  TrainResult run() {
    const SignalScope signals;
    manual_seed(options_.seed);
    start();
    TrainResult result;
    int skips = 0;
    while (state_.step < steps_ && !stopped() && !g_interrupted) {
      const double begin = seconds_now();
      const StepOutcome outcome = step();
      skips = outcome.finite || outcome.rescaled ? 0 : skips + 1;
      check(skips < kMaxSkips, "train",
            "{} steps in a row had a loss or gradient that is not finite; try a lower --lr", skips);
      result.loss = outcome.loss;
      report(outcome, seconds_now() - begin);
      const bool last = state_.step == steps_;
      if (last || state_.step % eval_every_ == 0) {
        judge();
      }
      if (last || stopped() || g_interrupted || state_.step % checkpoint_every_ == 0) {
        save();
      }
    }
    log_.finish();
    result.interrupted = g_interrupted && state_.step < steps_ && !stopped();
    if (stopped() && state_.step < steps_) {
      log_.say(fmt::format("stopped early at step {}: the best is that of step {}", state_.step,
                           state_.best_step));
    }
    if (state_.best_step == 0) {
      const EmaScope average(ema_);
      save_best();
    } else if (!result.interrupted) {
      judge_best(result);
    }
    result.steps = state_.step;
    result.val_loss = state_.best;
    result.samples = std::move(samples_);
    return result;
  }

 private:
  struct StepOutcome {
    double loss = 0.0;
    double norm = 0.0;
    int64_t tokens = 0;
    bool finite = true;
    bool rescaled = false;  // an overflow of f16 that a smaller loss scale mends
  };

  void start() {
    const std::string text = dump_train_options(options_);
    if (options_.resume) {
      if (const auto restored = folder_.restore(*task_.model, optimizer_, ema_)) {
        TrainOptions before;
        parse_train_options(restored->options, "config.toml", before);
        check_data(dump_train_options(before) == text, options_.out.native(),
                   "the run was started with other options; resume with the same ones "
                   "(config.toml has them)");
        state_ = *restored;
        task_.train->restore(state_.loader);
        set_random_state(state_.random);
        folder_.cut_lines("metrics.jsonl", state_.step);
        folder_.cut_lines("samples.jsonl", state_.step);
      }
    }
    state_.options = text;
    write_file_atomically(folder_.path() / "config.toml", text);
    log_.open(state_.step);
  }

  StepOutcome step() {
    const Batch batch = task_.train->next();
    StepOutcome outcome;
    const int64_t micro = options_.micro_batch > 0 ? options_.micro_batch : batch.rows;
    for (int64_t begin = 0; begin < batch.rows; begin += micro) {
      const Batch part = micro >= batch.rows
                             ? batch
                             : batch_rows(batch, begin, std::min(begin + micro, batch.rows));
      const double share = static_cast<double>(part.targets) /
                           static_cast<double>(std::max<int64_t>(batch.targets, 1));
      const ActivationScope precision(activations_);
      const Tensor loss = task_.model->forward(to_input(part, options_, true)).loss;
      outcome.loss += loss.item() * share;
      const double factor = share * state_.loss_scale.scale;
      backward(factor == 1.0 ? loss : mul(loss, factor));
    }
    outcome.tokens = batch.tokens;
    const double scale = state_.loss_scale.scale;
    outcome.norm = optimizer_.grad_norm() / scale;
    outcome.finite = std::isfinite(outcome.norm) && std::isfinite(outcome.loss);
    ++state_.step;
    optimizer_.set_lr(schedule_.lr(state_.step));
    if (outcome.finite) {
      const bool clips = options_.clip > 0.0 && outcome.norm > options_.clip;
      optimizer_.step((clips ? options_.clip / outcome.norm : 1.0) / scale);
      ema_.update(state_.step);
    }
    if (activations_ == DType::f16) {
      outcome.rescaled = state_.loss_scale.update(outcome.finite);
    }
    optimizer_.zero_grad();
    return outcome;
  }

  void report(const StepOutcome& outcome, double seconds) {
    Progress progress{state_.step, steps_, outcome.loss};
    progress.norm = outcome.norm;
    progress.lr = optimizer_.lr();
    progress.seconds = seconds;
    progress.tokens_per_second = static_cast<double>(outcome.tokens) / seconds;
    log_.step(progress, outcome.finite);
  }

  /// Judges the weights (their average where there is one), and keeps them where they are the best.
  void judge() {
    const EmaScope average(ema_);
    if (!task_.validation) {
      samples_ = make_samples(*task_.model, task_, options_, sample_seed());
      log_.samples(state_.step, samples_);
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
    if (options_.probes > 0) {
      save_snapshot(
          *task_.model, task_, options_, state_.step,
          folder_.path() / "snapshots" / fmt::format("step-{:06}.safetensors", state_.step));
    }
  }

  uint64_t sample_seed() const { return options_.seed + static_cast<uint64_t>(state_.step); }

  /// Whether --patience has run out.
  bool stopped() const { return options_.patience > 0 && state_.stale >= options_.patience; }

  /// The figures of the model that is kept; over all texts where evaluations looked at some.
  void judge_best(TrainResult& result) {
    const bool generates = task_.judge == Judge::translation || task_.judge == Judge::captions;
    const bool whole = !generates || options_.eval_texts == 0 ||
                       options_.eval_texts >= task_.validation->examples();
    if (!whole || best_.loss != state_.best) {  // looked at in part, or before the run went on
      const std::unique_ptr<Model> best = load_model(folder_.path() / "model");
      best_ = evaluate(*best, task_, options_, 0, sample_seed());
    }
    result.figures = best_.figures;
    log_.evaluation(state_.step, best_, true, true);
  }

  /// The model folder: the best so far, or the last where nothing was validated.
  void save_best() const {
    const std::filesystem::path folder = folder_.path() / "model";
    save_model(*task_.model, folder);
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
    folder_.save(*task_.model, optimizer_, ema_, state_, options_.keep);
  }

  const TrainOptions& options_;
  RunFolder folder_;
  Task task_;
  std::vector<NamedTensor> parameters_;
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
};

}  // namespace

TrainResult train(const TrainOptions& options) {
  if (options.out.empty() || options.data.empty() || options.task.empty()) {
    fail(ErrorKind::usage, "train", "needs --task, --data and --out");
  }
  return Trainer(options).run();
}

}  // namespace heed
