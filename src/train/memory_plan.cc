#include "train/memory_plan.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "base/check.h"
#include "base/language.h"
#include "heed/ops.h"
#include "heed/runtime.h"

namespace heed {
namespace {

constexpr int64_t kFloat = 4;
constexpr int64_t kMoments = 2;         // Adam's
constexpr int64_t kLookedAt = 64;       // batches among which the largest is sought
constexpr double kWorking = 0.08;       // share of the activations that backward() works on
constexpr int64_t kProcess = 48 << 20;  // program, buffers, packed weights

/// Puts the random numbers back.
class RandomScope {
 public:
  RandomScope() : before_(random_state()) {}
  ~RandomScope() { set_random_state(before_); }
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  RandomState before_;
};

int64_t size_of(const Batch& batch) {
  return batch.pixel_values.defined() || batch.features.defined() ? batch.rows : batch.tokens;
}

/// Rows [0, micro) of the largest of the first batches.
Batch largest_batch(const Task& task, const TrainOptions& options) {
  Batch largest = task.train->batch(0);
  const bool cheap = !largest.pixel_values.defined();
  const int64_t steps = cheap ? std::min(task.train->steps_per_epoch(), kLookedAt) : 1;
  for (int64_t step = 1; step < steps; ++step) {
    Batch batch = task.train->batch(step);
    if (size_of(batch) > size_of(largest)) {
      largest = std::move(batch);
    }
  }
  return options.micro_batch > 0 && options.micro_batch < largest.rows
             ? batch_rows(largest, 0, options.micro_batch)
             : largest;
}

/// The first `length` tokens of every row; the whole batch where it holds other things.
Batch first_tokens(const Batch& batch, int64_t length) {
  const bool plain = batch.input_ids.defined() && !batch.decoder_input_ids.defined() &&
                     !batch.pixel_values.defined() && !batch.features.defined();
  if (!plain || batch.input_ids.size(1) <= length) {
    return batch;
  }
  Batch part = batch;
  const int64_t before = batch.input_ids.size(1);
  for (Tensor ModelInput::*member : kInputTensors) {
    if ((part.*member).defined() && (part.*member).rank() == 2 &&
        (part.*member).size(1) == before) {
      part.*member = slice(part.*member, 1, 0, length).contiguous();
    }
  }
  if (part.labels.defined() && part.labels.rank() == 2) {
    part.labels = part.input_ids;  // all of them count: what is learned may come later
  }
  part.tokens = part.rows * length;
  return part;
}

/// Bytes that a forward pass over the batch keeps for the gradient.
int64_t measured(const Task& task, const Batch& batch, const TrainOptions& options) {
  const RandomScope random;
  const ActivationScope precision(dtype_from_name(options.precision));
  const int64_t before = memory_stats().in_use;
  const Tensor loss = loss_of(task, *task.model, to_input(batch, options, true));
  return std::max<int64_t>(memory_stats().in_use - before, 0);
}

/// The same by two small passes: what every row adds, and what is there for any number of rows.
double kept_by(const Task& task, const Batch& batch, const TrainOptions& options) {
  constexpr int64_t kSmall = 2;
  constexpr int64_t kLarger = 6;
  if (batch.rows <= kLarger) {
    return static_cast<double>(measured(task, batch, options));
  }
  const Batch small = batch_rows(batch, 0, kSmall);
  const Batch larger = batch_rows(batch, 0, kLarger);
  measured(task, small, options);  // tables that a model makes on first use are not counted
  const auto few = static_cast<double>(measured(task, small, options));
  const auto more = static_cast<double>(measured(task, larger, options));
  // Rows differ in length; without tokens to count they are alike.
  const auto size = [&](const Batch& part) {
    return static_cast<double>(larger.tokens > small.tokens ? part.tokens : part.rows);
  };
  return few + (more - few) * (size(batch) - size(small)) / (size(larger) - size(small));
}

int64_t read_number(const char* file, const char* after = nullptr) {
  std::ifstream in(file);
  std::string word;
  if (after != nullptr) {
    while (in >> word && word != after) {
    }
  }
  int64_t value = -1;
  return in >> value ? value : -1;
}

std::string bytes(int64_t count) {
  const auto value = static_cast<double>(count);
  constexpr double kMiB = 1024.0 * 1024.0;
  return value >= 1024.0 * kMiB ? fmt::format("{:.1f} GiB", value / kMiB / 1024.0)
         : value >= 10 * kMiB   ? fmt::format("{:.0f} MiB", value / kMiB)
         : value >= kMiB        ? fmt::format("{:.1f} MiB", value / kMiB)
                                : fmt::format("{:.0f} KiB", std::ceil(value / 1024.0));
}

int64_t peak_of(const MemoryPlan& plan, int64_t activations, bool accumulates) {
  // Gradients come as activations go: the two never stand at their largest together, unless
  // micro-batches add to gradients that are there.
  const int64_t both = accumulates ? activations + plan.gradients
                                   : std::max(activations, plan.gradients) +
                                         std::min(activations, plan.gradients) / 2;
  return plan.weights + plan.optimizer + both + kProcess;
}

}  // namespace

MemoryPlan plan_memory(const Task& task, const TrainOptions& options) {
  MemoryPlan plan;
  int64_t trainable = 0;
  for (const Parameter& parameter : task.model->parameters()) {
    plan.weights += parameter.tensor.bytes();
  }
  for (const Parameter& parameter : task.model->trainable_parameters()) {
    trainable += parameter.tensor.requires_grad() ? parameter.tensor.numel() : 0;
  }
  plan.gradients = trainable * kFloat;
  plan.optimizer = (kMoments + (options.ema > 0.0 ? 1 : 0)) * trainable * kFloat;
  const Batch largest = largest_batch(task, options);
  plan.rows = largest.rows;
  double kept = kept_by(task, largest, options);
  if (options.recompute) {
    // One block at a time is computed again, and its gradients take about as much once more.
    // Of a few tokens: a whole pass may be the very thing that does not fit.
    constexpr int64_t kShort = 64;
    const Batch part = first_tokens(largest, kShort);
    task.model->set_gradient_checkpointing(false);
    double whole = kept_by(task, part, options);
    task.model->set_gradient_checkpointing(true);
    if (part.tokens < largest.tokens) {
      whole *= static_cast<double>(largest.tokens) / static_cast<double>(part.tokens);
    }
    kept += 2.0 * whole / static_cast<double>(std::max<int64_t>(task.model->num_layers(), 1));
  }
  plan.activations = static_cast<int64_t>(kept * (1.0 + kWorking));
  plan.peak = peak_of(plan, plan.activations, plan.rows < options.batch);
  return plan;
}

int64_t available_memory() {
  constexpr int64_t kKilo = 1024;
  int64_t available = read_number("/proc/meminfo", "MemAvailable:");
  available = available < 0 ? INT64_MAX : available * kKilo;
  const int64_t limit = read_number("/sys/fs/cgroup/memory.max");
  const int64_t used = read_number("/sys/fs/cgroup/memory.current");
  if (limit > 0 && used >= 0) {
    available = std::min(available, std::max<int64_t>(limit - used, 0));
  }
  rlimit address_space{};  // ulimit -v
  if (getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY) {
    const int64_t mapped = read_number("/proc/self/statm") * sysconf(_SC_PAGE_SIZE);
    const auto most = static_cast<int64_t>(std::min<rlim_t>(address_space.rlim_cur, INT64_MAX));
    available = std::min(available, std::max<int64_t>(most - mapped, 0));
  }
  return available;
}

std::string describe(const MemoryPlan& plan) {
  return tell(
      "memory: about {} (weights {}, gradients {}, optimizer {}, activations {} of {} "
      "examples at a time)",
      bytes(plan.peak), bytes(plan.weights), bytes(plan.gradients), bytes(plan.optimizer),
      bytes(plan.activations), plan.rows);
}

void check_memory(const MemoryPlan& plan, const TrainOptions& options, int64_t available) {
  // What is in use already, the weights above all, is not asked for again.
  const int64_t in_use = memory_stats().in_use;
  const int64_t left = std::min(available, INT64_MAX - in_use) + in_use;
  if (plan.peak <= left || options.force) {
    return;
  }
  std::string advice;
  for (int64_t rows = plan.rows / 2; rows >= 1; rows /= 2) {
    const int64_t peak = peak_of(plan, plan.activations / plan.rows * rows, true);
    if (peak <= left) {
      advice += fmt::format("a micro-batch of {} (about {}, the same result), ", rows, bytes(peak));
      break;
    }
  }
  if (!options.recompute && plan.activations > plan.gradients) {
    advice += "recompute (a third slower, the same result), ";
  }
  const int64_t fixed = plan.weights + plan.gradients + plan.optimizer;
  advice += fixed > left ? "a smaller width or fewer layers, " : "a shorter context, ";
  fail(ErrorKind::runtime, "train", "{}; {} are free. Try {}or force to start all the same",
       describe(plan), bytes(left), advice);
}

void check_model_fits(const TrainOptions& o, int64_t vocabulary) {
  const auto width = static_cast<double>(o.width);
  const double inner = o.ff > 0 ? static_cast<double>(o.ff) : 4.0 * width;
  const double block = 4.0 * width * width + 2.0 * width * inner;
  const double parameters =
      block * static_cast<double>(o.layers) + width * static_cast<double>(vocabulary);
  constexpr double kCopies = 2.0 + kMoments;  // weight, gradient, moments
  const double needed = kCopies * parameters * kFloat;
  const auto left = static_cast<double>(available_memory());
  if (needed > left && !o.force) {
    fail(ErrorKind::runtime, "train",
         "a model of {:.2g} parameters needs at least {} to train; {} are free. Try a smaller "
         "width or fewer layers, or force to start all the same",
         parameters, bytes(static_cast<int64_t>(std::min(needed, 9e18))),
         bytes(static_cast<int64_t>(left)));
  }
}

}  // namespace heed
