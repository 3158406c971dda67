#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>

#include "base/check.h"
#include "base/file.h"
#include "heed/optim.h"
#include "heed/train.h"
#include "io/json_writer.h"
#include "train/live_line.h"
#include "train/run_folder.h"
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
        optimizer_(decay_groups(trainable(*task_.model, options.freeze), options.weight_decay),
                   {.lr = options.lr, .beta2 = 0.98}),
        line_(options.quiet),
        activations_(dtype_from_name(options.precision)) {
    state_.loss_scale = LossScale::for_type(activations_);
    steps_ = options.steps > 0 ? options.steps : options.epochs * task_.train->steps_per_epoch();
    check(steps_ > 0, "train", "there is nothing to do: 0 steps");
    eval_every_ = options.eval_every > 0 ? options.eval_every : std::max<int64_t>(1, steps_ / 10);
    checkpoint_every_ =
        options.checkpoint_every > 0 ? options.checkpoint_every : std::max<int64_t>(1, steps_ / 10);
    schedule_ = {schedule_from_name(options.schedule), options.lr,
                 std::min(options.warmup, steps_ / 2), steps_, 0.1};
  }

  TrainResult run() {
    const SignalScope signals;
    manual_seed(options_.seed);
    start();
    TrainResult result;
    int skips = 0;
    while (state_.step < steps_ && !g_interrupted) {
      const double begin = seconds_now();
      const StepOutcome outcome = step();
      skips = outcome.finite || outcome.rescaled ? 0 : skips + 1;
      check(skips < kMaxSkips, "train",
            "{} steps in a row had a loss or gradient that is not finite; try a lower --lr", skips);
      result.loss = outcome.loss;
      report(outcome, seconds_now() - begin);
      const bool last = state_.step == steps_;
      if (task_.validation && (last || state_.step % eval_every_ == 0)) {
        evaluate();
      }
      if (last || g_interrupted || state_.step % checkpoint_every_ == 0) {
        save();
      }
    }
    line_.finish();
    if (!task_.validation || state_.best == 0.0) {
      save_best();
    }
    result.steps = state_.step;
    result.val_loss = state_.best;
    result.interrupted = g_interrupted && state_.step < steps_;
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
      if (const auto restored = folder_.restore(*task_.model, optimizer_)) {
        check_data(restored->options == text, options_.out.native(),
                   "the run was started with other options; resume with the same ones "
                   "(config.toml has them)");
        state_ = *restored;
        task_.train->restore(state_.loader);
        set_random_state(state_.random);
        folder_.cut_metrics(state_.step);
      }
    }
    state_.options = text;
    write_file_atomically(folder_.path() / "config.toml", text);
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
    }
    if (activations_ == DType::f16) {
      outcome.rescaled = state_.loss_scale.update(outcome.finite);
    }
    optimizer_.zero_grad();
    return outcome;
  }

  void report(const StepOutcome& outcome, double seconds) {
    const double rate = static_cast<double>(outcome.tokens) / seconds;
    line_.show({state_.step, steps_, outcome.loss, outcome.norm, optimizer_.lr(), seconds, rate});
    JsonWriter json;
    json.begin_object().field("step", state_.step).field("loss", outcome.loss);
    json.field("grad_norm", outcome.norm).field("lr", optimizer_.lr());
    json.field("tokens_per_second", rate).field("seconds", seconds);
    if (!outcome.finite) {
      json.field("skipped", true);
    }
    folder_.add_metrics(json.end_object().text());
  }

  void evaluate() {
    const NoGrad no_grad;
    const double begin = seconds_now();
    double loss = 0.0;
    double right = 0.0;
    int64_t targets = 0;
    int64_t rows = 0;
    int64_t tokens = 0;
    for (int64_t step = 0; step < task_.validation->steps_per_epoch(); ++step) {
      const Batch batch = task_.validation->batch(step);
      ModelInput input = to_input(batch, options_, false);
      input.want_logits = task_.classifies;
      const ModelOutput output = task_.model->forward(input);
      loss += output.loss.item() * static_cast<double>(batch.targets);
      targets += batch.targets;
      tokens += batch.tokens;
      if (task_.classifies) {
        const std::vector<double> best = argmax(output.logits, 1).to_doubles();
        const std::vector<double> gold = batch.labels.to_doubles();
        for (size_t i = 0; i < best.size(); ++i) {
          right += best[i] == gold[i];
        }
        rows += batch.rows;
      }
    }
    const double mean_loss = loss / static_cast<double>(std::max<int64_t>(targets, 1));
    const double seconds = seconds_now() - begin;
    JsonWriter json;
    json.begin_object().field("step", state_.step).field("loss", mean_loss);
    json.field("val_loss", mean_loss);
    if (task_.classifies) {
      json.field("val_accuracy", right / static_cast<double>(std::max<int64_t>(rows, 1)));
    } else if (options_.task == "lm" || options_.task == "mlm") {
      json.field("val_perplexity", std::exp(mean_loss));
    }
    json.field("tokens_per_second", static_cast<double>(tokens) / seconds);
    json.field("seconds", seconds);
    folder_.add_metrics(json.end_object().text());
    if (!options_.quiet) {
      line_.finish();
      std::fprintf(
          stderr, "validation at step %lld: loss %.4f%s\n", static_cast<long long>(state_.step),
          mean_loss,
          task_.classifies
              ? fmt::format(" | accuracy {:.4f}", right / static_cast<double>(rows)).c_str()
              : "");
    }
    if (state_.best == 0.0 || mean_loss < state_.best) {
      state_.best = mean_loss;
      save_best();
    }
  }

  /// The model folder: the best so far, or the last where nothing was validated.
  void save_best() const {
    save_model(*task_.model, folder_.path() / "model");
    if (task_.tokenizer) {
      task_.tokenizer.save(folder_.path() / "model");
    }
  }

  void save() {
    state_.random = random_state();
    state_.loader = task_.train->state();
    folder_.save(*task_.model, optimizer_, state_, options_.keep);
  }

  const TrainOptions& options_;
  RunFolder folder_;
  Task task_;
  Optimizer optimizer_;
  LiveLine line_;
  DType activations_;
  Schedule schedule_;
  RunState state_;
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
