#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/checksum.h"
#include "data/permutation.h"
#include "heed/data.h"

namespace heed {
namespace {

// Streams of the loader's seed. An epoch has one, and every window of buckets another.
constexpr uint64_t kEpochStream = uint64_t{1} << 62;
constexpr uint64_t kWindowStream = uint64_t{2} << 62;
constexpr uint64_t kSplitSeed = 0x73706c6974;  // the same split for every seed
constexpr int64_t kWindowBatches = 64;         // sorted by length together

Tensor rows_of(const Tensor& tensor, int64_t begin, int64_t end) {
  if (!tensor) {
    return {};
  }
  Shape shape = tensor.shape();
  shape[0] = end - begin;
  return tensor.alias(shape, tensor.strides(), begin * tensor.strides()[0]);
}

int64_t count_real(const Tensor& ids, const Tensor& mask) {
  if (!mask) {
    return ids ? ids.numel() : 0;
  }
  const int64_t* values = mask.data<int64_t>();
  return std::count(values, values + mask.numel(), 1);
}

}  // namespace

Batch batch_rows(const Batch& batch, int64_t begin, int64_t end) {
  check(begin >= 0 && begin <= end && end <= batch.rows, "batch", "rows {} to {} of {}", begin, end,
        batch.rows);
  Batch part = batch;
  for (const auto member : kInputTensors) {
    const bool text = member == &ModelInput::input_ids || member == &ModelInput::attention_mask;
    const int64_t per_example = text ? batch.passages : 1;
    part.*member = rows_of(batch.*member, begin * per_example, end * per_example);
  }
  part.rows = end - begin;
  part.targets = part.labels.numel();
  if (part.labels.dtype() == DType::i64) {
    const int64_t* labels = part.labels.data<int64_t>();
    part.targets -= std::count(labels, labels + part.labels.numel(), -100);
  }
  part.tokens = count_real(part.input_ids, part.attention_mask) +
                count_real(part.decoder_input_ids, part.decoder_attention_mask);
  return part;
}

struct Loader::Window {
  int64_t epoch = -1;
  int64_t index = -1;
  std::vector<int64_t> examples;  // batch after batch
};

Loader::Loader(const LoaderOptions& options) : options_(options) {
  check(options.batch > 0, "loader", "batch {} must be positive", options.batch);
  check(options.ranks > 0 && options.rank >= 0 && options.rank < options.ranks, "loader",
        "rank {} is not below the number of ranks, {}", options.rank, options.ranks);
  check(options.validation >= 0 && options.validation < 1, "loader",
        "validation fraction {} must be in [0, 1)", options.validation);
}

Loader::~Loader() = default;

int64_t Loader::length_of(int64_t) const { return 0; }

void Loader::set_examples(int64_t count, uint64_t fingerprint, bool bucketed) {
  whole_ = count;
  bucketed_ = bucketed && options_.shuffle;
  int64_t held_out =
      static_cast<int64_t>(std::llround(static_cast<double>(count) * options_.validation));
  if (options_.validation > 0) {
    held_out = std::clamp<int64_t>(held_out, std::min<int64_t>(count, 1), count);
  }
  first_ = options_.part == Part::train ? held_out : 0;
  examples_ = options_.part == Part::all     ? count
              : options_.part == Part::train ? count - held_out
                                             : held_out;
  check_data(examples_ > 0, "data",
             "no examples are left of {} for this part of the set; give more, or another fraction "
             "for validation",
             count);
  const double cut[4] = {static_cast<double>(options_.part), options_.validation,
                         static_cast<double>(options_.max_length),
                         static_cast<double>(options_.shuffle)};
  fingerprint_ = fingerprint_of(cut, sizeof(cut), fingerprint);
}

int64_t Loader::steps_per_epoch() const {
  const int64_t whole_batches = examples_ / options_.batch;
  return options_.shuffle ? std::max<int64_t>(whole_batches, 1)
                          : (examples_ + options_.batch - 1) / options_.batch;
}

int64_t Loader::example_at(int64_t epoch, int64_t place) const {
  auto example = static_cast<uint64_t>(place % examples_);
  if (options_.shuffle) {
    example = permuted(example, static_cast<uint64_t>(examples_), options_.seed,
                       kEpochStream | static_cast<uint64_t>(epoch));
  }
  example += static_cast<uint64_t>(first_);
  return static_cast<int64_t>(
      options_.part == Part::all ? example
                                 : permuted(example, static_cast<uint64_t>(whole_), kSplitSeed, 0));
}

const Loader::Window& Loader::window(int64_t epoch, int64_t index) const {
  if (window_ && window_->epoch == epoch && window_->index == index) {
    return *window_;
  }
  const int64_t first = index * kWindowBatches;
  const int64_t batches = std::min(kWindowBatches, steps_per_epoch() - first);
  std::vector<std::pair<int64_t, int64_t>> sorted;  // length, example
  for (int64_t i = 0; i < batches * options_.batch; ++i) {
    const int64_t example = example_at(epoch, first * options_.batch + i);
    sorted.emplace_back(length_of(example), example);
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  auto result = std::make_unique<Window>();
  result->epoch = epoch;
  result->index = index;
  const uint64_t stream =
      kWindowStream | static_cast<uint64_t>(epoch) << 32 | static_cast<uint64_t>(index);
  for (int64_t i = 0; i < batches; ++i) {
    const auto from = static_cast<int64_t>(
        permuted(static_cast<uint64_t>(i), static_cast<uint64_t>(batches), options_.seed, stream));
    for (int64_t row = 0; row < options_.batch; ++row) {
      result->examples.push_back(sorted[static_cast<size_t>(from * options_.batch + row)].second);
    }
  }
  window_ = std::move(result);
  return *window_;
}

std::vector<int64_t> Loader::examples_of(int64_t step) const {
  const int64_t epoch = epoch_of(step);
  const int64_t within = step % steps_per_epoch();
  if (bucketed_) {
    const Window& bucket = window(epoch, within / kWindowBatches);
    const auto first = bucket.examples.begin() + within % kWindowBatches * options_.batch;
    return {first, first + options_.batch};
  }
  const int64_t begin = within * options_.batch;
  const int64_t end =
      options_.shuffle ? begin + options_.batch : std::min(begin + options_.batch, examples_);
  std::vector<int64_t> examples;
  for (int64_t place = begin; place < end; ++place) {
    examples.push_back(example_at(epoch, place));
  }
  return examples;
}

Batch Loader::batch(int64_t step) const {
  check(step >= 0 && (options_.shuffle || step < steps_per_epoch()), "loader",
        "step {} of {} does not exist", step, steps_per_epoch());
  const std::vector<int64_t> examples = examples_of(step);
  const auto count = static_cast<int64_t>(examples.size());
  Batch batch = collate(examples, count * options_.rank / options_.ranks,
                        count * (options_.rank + 1) / options_.ranks, step);
  batch.step = step;
  return batch;
}

LoaderState Loader::state() const { return {step_, options_.seed, options_.batch, fingerprint_}; }

void Loader::restore(const LoaderState& state) {
  check_data(state.fingerprint == fingerprint_, "resume",
             "the data, or how it is cut, is not what the run began with");
  check_data(state.seed == options_.seed, "resume", "the seed was {}, not {}", state.seed,
             options_.seed);
  check_data(state.batch == options_.batch, "resume", "the global batch was {}, not {}",
             state.batch, options_.batch);
  check_data(state.step >= 0, "resume", "step {} does not exist", state.step);
  step_ = state.step;
}

}  // namespace heed
