#include "train/data_parallel.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "heed/tensor.h"
#include "kernels/reduce.h"

namespace heed {
namespace {

// A bucket starts early where it is small and pays for few messages where it is large: 4 MB, and at
// least 64 kB to each rank.
constexpr int64_t kBucketFloats = int64_t{1} << 20;
constexpr int64_t kChunkFloats = int64_t{1} << 14;

/// `count` elements of a contiguous tensor as a vector that shares its memory.
Tensor part_of(const Tensor& tensor, int64_t begin, int64_t count) {
  return tensor.alias({count}, {1}, begin);
}

}  // namespace

struct DataParallel::State {
  struct Entry {
    size_t parameter;
    int64_t offset;  // in the bucket
  };
  struct Bucket {
    std::vector<Entry> entries;
    Tensor flat;  // f32, size() chunks
    int64_t chunk = 0;
    size_t waiting = 0;  // gradients that are not in yet
  };
  /// A stretch of a parameter in this rank's chunk of a bucket.
  struct Piece {
    size_t parameter;
    int64_t begin, count;
    size_t bucket;
    int64_t offset;
    Tensor value;
    std::string name;
  };

  Communicator& ranks;
  std::vector<NamedTensor> parameters;
  bool shard;
  bool overlap = true;
  std::vector<Bucket> buckets;
  std::vector<std::pair<size_t, size_t>> places;  // bucket and entry of a parameter
  std::vector<Piece> pieces;

  // Of a step.
  bool last = false;
  size_t started = 0;         // buckets under way
  std::vector<int> calls;     // of a parameter's hook
  std::vector<bool> inside;   // its gradient is in the bucket
  std::vector<double> given;  // 1: this rank has a gradient for it
  // Learned in the first step: where blocks are computed again, a shared parameter is ready only
  // after several calls.
  std::vector<int> expected;
  std::vector<double> used;  // 1: some rank has a gradient for it

  State(Communicator& all, const std::vector<NamedTensor>& named, bool split)
      : ranks(all), parameters(named), shard(split && all.size() > 1) {
    places.resize(parameters.size());
    std::vector<size_t> waiting;
    const int64_t enough = std::max(kBucketFloats, ranks.size() * kChunkFloats);
    int64_t floats = 0;
    for (size_t i = parameters.size(); i-- > 0;) {
      waiting.push_back(i);
      floats += parameters[i].second.numel();
      if (floats >= enough || i == 0) {
        add_bucket(waiting, floats);
        waiting.clear();
        floats = 0;
      }
    }
    if (shard) {
      add_pieces();
    }
    clear();
  }

  void add_bucket(const std::vector<size_t>& indices, int64_t floats) {
    Bucket bucket;
    const int64_t size = ranks.size();
    bucket.chunk = (floats + size - 1) / size;
    bucket.flat = Tensor::zeros({size * bucket.chunk});
    int64_t offset = 0;
    for (const size_t index : indices) {
      places[index] = {buckets.size(), bucket.entries.size()};
      bucket.entries.push_back({index, offset});
      offset += parameters[index].second.numel();
    }
    buckets.push_back(std::move(bucket));
  }

  void add_pieces() {
    for (size_t b = 0; b < buckets.size(); ++b) {
      const int64_t from = ranks.rank() * buckets[b].chunk;
      const int64_t to = from + buckets[b].chunk;
      for (const Entry& entry : buckets[b].entries) {
        const auto& [name, value] = parameters[entry.parameter];
        check(value.dtype() == DType::f32, "shard_optimizer", "'{}' is {}; it takes f32 weights",
              name, name_of(value.dtype()));
        const int64_t begin = std::max(from, entry.offset);
        const int64_t end = std::min(to, entry.offset + value.numel());
        if (begin < end) {
          const int64_t within = begin - entry.offset;
          pieces.push_back({entry.parameter, within, end - begin, b, begin,
                            part_of(value, within, end - begin),
                            fmt::format("{}[{}:{}]", name, within, within + end - begin)});
        }
      }
    }
  }

  void clear() {
    last = false;
    started = 0;
    calls.assign(parameters.size(), 0);
    inside.assign(parameters.size(), false);
    given.assign(parameters.size(), 0.0);
    for (Bucket& bucket : buckets) {
      bucket.waiting = bucket.entries.size();
    }
  }

  Tensor flat_part(size_t parameter) const {
    const auto [b, e] = places[parameter];
    return part_of(buckets[b].flat, buckets[b].entries[e].offset,
                   parameters[parameter].second.numel());
  }

  void ready(size_t index) {
    if (!last) {
      return;
    }
    ++calls[index];
    if (overlap && !expected.empty() && calls[index] == expected[index]) {
      put(index);
      start_full_buckets();
    }
  }

  /// The gradient into its bucket; its own memory is free for the rest of the pass.
  void put(size_t index) {
    Tensor& parameter = parameters[index].second;
    const Tensor gradient = parameter.grad();
    Tensor place = flat_part(index);
    if (gradient.defined()) {
      place.copy_from(part_of(gradient.contiguous(), 0, gradient.numel()));
      given[index] = 1.0;
      parameter.set_grad(Tensor());
    } else {
      place.fill(0.0);
    }
    inside[index] = true;
    --buckets[places[index].first].waiting;
  }

  /// In order, so that all ranks start the same sums one after the other.
  void start_full_buckets() {
    while (started < buckets.size() && buckets[started].waiting == 0) {
      Bucket& bucket = buckets[started];
      ranks.start_sum(bucket.flat.data<float>(), bucket.chunk, !shard);
      ++started;
    }
  }

  void put_rest() {
    for (size_t i = parameters.size(); i-- > 0;) {
      if (!inside[i]) {
        put(i);
      }
      check(!parameters[i].second.grad().defined(), "ranks",
            "'{}' got a gradient after its sum had begun; HEED_OVERLAP=off trains without overlap",
            parameters[i].first);
    }
    start_full_buckets();
    if (expected.empty()) {
      expected = calls;
    }
  }

  /// Squares of this rank's chunks: the ranks' sums make the whole.
  double own_squares() const {
    double sum = 0.0;
    for (const Bucket& bucket : buckets) {
      sum += kernels::sum_of_squares(bucket.flat.data<float>() + ranks.rank() * bucket.chunk,
                                     bucket.chunk);
    }
    return sum;
  }

  void set_gradients() {
    for (Piece& piece : pieces) {
      if (used[piece.parameter] != 0.0) {
        piece.value.set_grad(part_of(buckets[piece.bucket].flat, piece.offset, piece.count));
      }
    }
    for (size_t i = 0; !shard && i < parameters.size(); ++i) {
      if (used[i] != 0.0) {
        Tensor& parameter = parameters[i].second;
        const auto [b, e] = places[i];
        const Tensor sum = buckets[b].flat.alias(
            parameter.shape(), contiguous_strides(parameter.shape()), buckets[b].entries[e].offset);
        parameter.set_grad(sum.to(parameter.dtype()));
      }
    }
  }

  /// Own pieces from `value(piece)` into the buckets, and from there to every rank.
  template <class Value>
  void share(const Value& value) {
    for (const Piece& piece : pieces) {
      Tensor place = part_of(buckets[piece.bucket].flat, piece.offset, piece.count);
      const Tensor source = value(piece);
      if (source.defined()) {
        place.copy_from(source);
      } else {
        place.fill(0.0);
      }
    }
    for (Bucket& bucket : buckets) {
      ranks.start_all_gather(bucket.flat.data<float>(), bucket.chunk);
    }
    ranks.finish();
  }
};

DataParallel::DataParallel(Communicator& ranks, const std::vector<NamedTensor>& parameters,
                           bool shard)
    : state_(std::make_shared<State>(
          ranks, ranks.size() > 1 ? parameters : std::vector<NamedTensor>{}, shard)) {
  if (ranks.size() == 1) {
    state_->parameters = parameters;
    return;
  }
  const char* overlap = std::getenv("HEED_OVERLAP");
  state_->overlap = overlap == nullptr || std::string_view(overlap) != "off";
  for (size_t i = 0; i < parameters.size(); ++i) {
    on_grad_ready(parameters[i].second, [state = std::weak_ptr(state_), i](const Tensor&) {
      if (const auto self = state.lock()) {
        self->ready(i);
      }
    });
  }
}

DataParallel::~DataParallel() = default;

std::vector<ParameterGroup> DataParallel::groups(double weight_decay) const {
  if (!state_->shard) {
    return decay_groups(state_->parameters, weight_decay);
  }
  std::vector<ParameterGroup> groups(2);
  groups[0].weight_decay = weight_decay;
  groups[1].weight_decay = 0.0;
  for (const State::Piece& piece : state_->pieces) {
    const bool decays = state_->parameters[piece.parameter].second.rank() >= 2;
    groups[decays ? 0 : 1].parameters.emplace_back(piece.name, piece.value);
  }
  return groups;
}

void DataParallel::last_pass() { state_->last = true; }

StepSums DataParallel::finish(const Optimizer& optimizer, double loss, double tokens,
                              bool interrupted) {
  State& s = *state_;
  StepSums sums{loss, tokens, 0.0, interrupted};
  if (s.ranks.size() == 1) {
    sums.norm = optimizer.grad_norm();
    return sums;
  }
  const double begin = seconds_now();
  s.put_rest();
  s.ranks.finish();
  sums.waited = seconds_now() - begin;
  sums.busy = s.ranks.take_busy_seconds();
  bool changed = s.used.empty();
  for (size_t i = 0; !changed && i < s.given.size(); ++i) {
    changed = s.given[i] > s.used[i];
  }
  const std::vector<double> all =
      s.ranks.sum({loss, tokens, s.own_squares(), interrupted ? 1.0 : 0.0, changed ? 1.0 : 0.0});
  sums.loss = all[0];
  sums.tokens = all[1];
  sums.norm = std::sqrt(all[2]);
  sums.interrupted = all[3] > 0.0;
  if (all[4] > 0.0) {
    const std::vector<double> seen = s.ranks.max(s.given);
    s.used.resize(seen.size(), 0.0);
    for (size_t i = 0; i < seen.size(); ++i) {
      s.used[i] = std::max(s.used[i], seen[i]);
    }
  }
  s.set_gradients();
  s.clear();
  return sums;
}

void DataParallel::share_weights() {
  State& s = *state_;
  if (!s.shard) {
    return;
  }
  s.share([](const State::Piece& piece) { return piece.value; });
  for (size_t i = 0; i < s.parameters.size(); ++i) {
    Tensor flat = part_of(s.parameters[i].second, 0, s.parameters[i].second.numel());
    flat.copy_from(s.flat_part(i));
  }
}

TensorMap DataParallel::state(const Optimizer& optimizer) {
  State& s = *state_;
  TensorMap own = optimizer.state();
  if (!s.shard) {
    return own;
  }
  TensorMap whole;
  whole.emplace("step", own.at("step"));
  const auto total = static_cast<double>(optimizer.steps());
  for (const char* kind : {"exp_avg", "exp_avg_sq", "momentum"}) {
    std::vector<double> has(s.parameters.size(), 0.0);
    const auto moment = [&](const State::Piece& piece) {
      const auto found = own.find(std::string(kind) + "." + piece.name);
      return found == own.end() ? Tensor() : found->second;
    };
    for (const State::Piece& piece : s.pieces) {
      has[piece.parameter] = moment(piece).defined() ? 1.0 : 0.0;
    }
    has = s.ranks.max(has);
    if (*std::max_element(has.begin(), has.end()) == 0.0) {
      continue;
    }
    s.share(moment);
    for (size_t i = 0; i < s.parameters.size(); ++i) {
      if (has[i] != 0.0) {
        Tensor full = Tensor::empty(s.parameters[i].second.shape());
        part_of(full, 0, full.numel()).copy_from(s.flat_part(i));
        whole.emplace(std::string(kind) + "." + s.parameters[i].first, full);
      }
    }
  }
  // Updates that a parameter took part in, where it missed some.
  std::vector<double> missed(s.parameters.size(), 0.0);
  for (const State::Piece& piece : s.pieces) {
    const auto found = own.find("step." + piece.name);
    missed[piece.parameter] = found == own.end() ? 0.0 : total - found->second.item();
  }
  missed = s.ranks.max(missed);
  for (size_t i = 0; i < missed.size(); ++i) {
    if (missed[i] != 0.0) {
      whole.emplace("step." + s.parameters[i].first,
                    Tensor::from({static_cast<int64_t>(total - missed[i])}, {}));
    }
  }
  return whole;
}

void DataParallel::load_state(Optimizer& optimizer, const TensorMap& whole) const {
  const State& s = *state_;
  if (!s.shard) {
    optimizer.load_state(whole);
    return;
  }
  TensorMap own;
  const auto count = whole.find("step");
  check(count != whole.end(), "optimizer", "the state has no 'step'");
  own.emplace("step", count->second);
  for (const State::Piece& piece : s.pieces) {
    const auto& [name, parameter] = s.parameters[piece.parameter];
    for (const char* kind : {"exp_avg", "exp_avg_sq", "momentum", "step"}) {
      const auto found = whole.find(std::string(kind) + "." + name);
      if (found == whole.end()) {
        continue;
      }
      const bool counts = std::string_view(kind) == "step";
      check(counts || found->second.shape() == parameter.shape(), "optimizer",
            "state '{}' is {}, the parameter {}", found->first, found->second.shape(),
            parameter.shape());
      own.emplace(
          std::string(kind) + "." + piece.name,
          counts ? found->second : part_of(found->second.contiguous(), piece.begin, piece.count));
    }
  }
  optimizer.load_state(own);
}

void DataParallel::check_weights() const {
  const State& s = *state_;
  if (s.ranks.size() == 1) {
    return;
  }
  uint64_t sum = 0;
  for (const auto& [name, parameter] : s.parameters) {
    sum = fingerprint_of(parameter.raw(), static_cast<size_t>(parameter.bytes()), sum);
  }
  const std::vector<std::string> all = s.ranks.gather(fmt::format("{:016x}", sum));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    check(all[rank] == all[0], "ranks",
          "the weights of rank {} are no longer those of rank 0 (checksums {} and {}): memory or "
          "network gave wrong bits; resume from the last checkpoint",
          rank, all[rank], all[0]);
  }
}

}  // namespace heed
