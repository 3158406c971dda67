#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/clock.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "heed/tensor.h"
#include "heed/train.h"
#include "train/trainer_impl.h"

namespace heed {
namespace {

constexpr int kMaxSkips = 10;          // steps in a row without a finite gradient
constexpr int kStepStreams = 16;       // a step has 2^16 random streams
constexpr int64_t kVerifyEvery = 100;  // steps between comparisons of the ranks' weights
constexpr double kFloor = 0.1;         // fraction of the peak rate that schedules end at

/// The parameters to train; the others no longer require a gradient.
std::vector<NamedTensor> trainable(const Model& model, const std::vector<std::string>& freeze) {
  std::vector<NamedTensor> result;
  const std::vector<Parameter> all = model.trainable_parameters();
  for (const std::string& beginning : freeze) {
    if (std::none_of(all.begin(), all.end(),
                     [&](const Parameter& each) { return each.name.starts_with(beginning); })) {
      fail(ErrorKind::usage, "freeze", "no parameter's name begins with '{}'; the first is '{}'",
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
    fail(ErrorKind::usage, "freeze", "leaves nothing to train");
  }
  return result;
}

int64_t count_steps(const TrainerOptions& options, const Loader& loader) {
  const int64_t steps =
      options.steps > 0 ? options.steps : options.epochs * loader.steps_per_epoch();
  check(steps > 0, "train", "there is nothing to do: 0 steps");
  return steps;
}

}  // namespace

Trainer::Impl::Impl(Model& of, Loader& from, const TrainerOptions& given)
    : model(of),
      loader(from),
      options(given),
      ranks(world()),
      parameters(trainable(of, given.freeze)),
      parallel(ranks, parameters, given.shard_optimizer),
      optimizer(parallel.groups(given.weight_decay),
                {.lr = given.lr, .beta1 = given.beta1, .beta2 = given.beta2}),
      ema(parameters, given.ema),
      loss_scale(LossScale::for_type(given.precision)),
      steps(count_steps(given, from)) {
  schedule = {options.schedule, options.lr, std::min(options.warmup, steps / 2), steps, kFloor};
}

double Trainer::Impl::accumulate(const Batch& batch) {
  const int64_t first = loader.state().batch * ranks.rank() / ranks.size();
  const int64_t micro = options.micro_batch > 0 ? options.micro_batch : batch.rows;
  double total = 0.0;
  for (int64_t begin = 0; begin < batch.rows; begin += micro) {
    const Batch part =
        micro >= batch.rows ? batch : batch_rows(batch, begin, std::min(begin + micro, batch.rows));
    if (part.targets == 0) {
      continue;  // a mean over nothing
    }
    // Each part counts by its targets among those of all ranks, and draws for its own examples:
    // neither micro-batches nor the number of ranks change what a step computes.
    const double share =
        static_cast<double>(part.targets) / static_cast<double>(batch.global_targets);
    set_random_state({options.seed, static_cast<uint64_t>(done) << kStepStreams});
    const ActivationScope precision(options.precision);
    ModelInput input = part;
    input.training = true;
    input.skip_padding = true;
    input.want_logits = false;
    input.label_smoothing = options.label_smoothing;
    input.first_example = first + begin;
    const Tensor value = options.loss ? options.loss(model, input) : model.forward(input).loss;
    total += value.item() * share;
    if (begin + micro >= batch.rows) {
      parallel.last_pass();
    }
    const double factor = share * loss_scale.scale;
    backward(factor == 1.0 ? value : mul(value, factor));
  }
  return total;
}

std::optional<TrainProgress> Trainer::Impl::update() {
  const double start = seconds_now();
  const LoaderState before = loader.state();
  const Batch batch = loader.next();
  double part = 0.0;
  try {
    // Ranks wait for each other: they finish the step.
    const StopScope scope(ranks.size() == 1 ? stop : std::stop_token());
    part = accumulate(batch);
  } catch (const Stopped&) {
    loader.restore(before);
    optimizer.zero_grad();
    interrupted = true;
    return std::nullopt;
  }
  const StepSums sums =
      parallel.finish(optimizer, part, static_cast<double>(batch.tokens), stop.stop_requested());
  interrupted = sums.interrupted;
  TrainProgress progress{.step = ++done, .steps = steps, .loss = sums.loss};
  progress.norm = sums.norm / loss_scale.scale;
  progress.finite = std::isfinite(progress.norm) && std::isfinite(progress.loss);
  optimizer.set_lr(schedule.lr(done));
  progress.lr = optimizer.lr();
  if (progress.finite) {
    const bool clips = options.clip > 0.0 && progress.norm > options.clip;
    optimizer.step((clips ? options.clip / progress.norm : 1.0) / loss_scale.scale);
    parallel.share_weights();
    ema.update(done);
  }
  const bool rescaled = options.precision == DType::f16 && loss_scale.update(progress.finite);
  optimizer.zero_grad();
  if (done % kVerifyEvery == 0) {
    parallel.check_weights();
  }
  skips = progress.finite || rescaled ? 0 : skips + 1;
  check(skips < kMaxSkips, "train",
        "{} steps in a row had a loss or gradient that is not finite; try a lower learning rate",
        skips);
  loss = std::isfinite(progress.loss) ? progress.loss : loss;
  progress.seconds = seconds_now() - start;
  progress.tokens_per_second = sums.tokens / progress.seconds;
  progress.examples_per_second = static_cast<double>(loader.state().batch) / progress.seconds;
  progress.sum_seconds = sums.busy;
  progress.sum_wait_seconds = sums.waited;
  return progress;
}

Trainer::Trainer(Model& model, Loader& loader, const TrainerOptions& options)
    : impl_(std::make_unique<Impl>(model, loader, options)) {}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;

void Trainer::on_step(std::function<void(const TrainProgress&)> callback) {
  impl_->on_step.push_back(std::move(callback));
}

void Trainer::on_every(int64_t steps, std::function<void(Trainer&)> callback) {
  check(steps > 0, "on_every", "{} steps; at least 1 is needed", steps);
  impl_->on_every.emplace_back(steps, std::move(callback));
}

TrainProgress Trainer::step() {
  impl_->stop = {};
  return *impl_->update();
}

void Trainer::run(const std::stop_token& stop) {
  Impl& the = *impl_;
  the.stop = stop;
  the.stopping = the.interrupted = false;
  while (the.done < the.steps && !the.stopping && !the.interrupted) {
    const std::optional<TrainProgress> progress = the.update();
    if (!progress) {
      break;
    }
    for (const auto& callback : the.on_step) {
      callback(*progress);
    }
    for (const auto& [every, callback] : the.on_every) {
      if (the.done == the.steps || the.done % every == 0) {
        callback(*this);
      }
    }
    // Ranks stop where all have heard of it, in the next update.
    the.interrupted = the.interrupted || (the.ranks.size() == 1 && stop.stop_requested());
  }
  the.interrupted = the.interrupted && the.done < the.steps;
}

void Trainer::stop() { impl_->stopping = true; }

int64_t Trainer::steps_done() const { return impl_->done; }
int64_t Trainer::steps() const { return impl_->steps; }
bool Trainer::interrupted() const { return impl_->interrupted; }
Optimizer& Trainer::optimizer() { return impl_->optimizer; }
const Model& Trainer::model() const { return impl_->model; }

double Trainer::evaluate(const Loader& loader) const {
  const NoGrad no_grad;
  const EmaScope average(impl_->ema);
  double sum = 0.0;
  double targets = 0.0;
  for (int64_t step = 0; step < loader.steps_per_epoch(); ++step) {
    const Batch batch = loader.batch(step);
    ModelInput input = batch;
    input.skip_padding = true;
    input.want_logits = false;
    const Tensor value = impl_->options.loss ? impl_->options.loss(impl_->model, input)
                                             : impl_->model.forward(input).loss;
    sum += value.item() * static_cast<double>(batch.targets);
    targets += static_cast<double>(batch.targets);
  }
  return sum / std::max(targets, 1.0);
}

void Trainer::apply_ema() { impl_->ema.exchange(); }

}  // namespace heed
