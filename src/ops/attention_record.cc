#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "base/per_thread.h"
#include "heed/attention.h"
#include "heed/ops.h"
#include "ops/attention_problem.h"
#include "tensor/dispatch.h"

namespace heed {
namespace {
thread_local Observer* t_observer = nullptr;
thread_local PerThread<std::string> t_place;
thread_local int64_t t_adjusted = 0;

bool is_narrow(DType type) { return type == DType::f16 || type == DType::bf16; }

bool same_tensor(const Tensor& a, const Tensor& b) {
  return a.defined() == b.defined() && (!a.defined() || a.raw() == b.raw());
}

Tensor widened_for_observers(const Tensor& x) {
  return is_narrow(x.dtype()) ? x.detach().to(DType::f32) : x.detach();
}

/// The weights of the ranges, one matrix after the other.
void write_weights(const AttentionRecord& record, const AttentionShape& shape,
                   const std::vector<kernels::WeightRange>& ranges, const Tensor& result) {
  const Tensor q = with_contiguous_columns(record.q);
  const Tensor k = with_contiguous_columns(record.k);
  dispatch_float(q.dtype(), "weights", [&](auto zero) {
    using T = decltype(zero);
    using C = kernels::Compute<T>;
    const Tensor bias = compute_bias(record.options.bias, q.dtype());
    const auto problem = attention_problem<T>(shape, q, k, k, bias, record.options);
    C* out = result.data<C>();
    for (const kernels::WeightRange& range : ranges) {
      kernels::attention_weights<T>(
          problem, {record.row_max.data<C>(), record.row_inverse.data<C>()}, range, out);
      out += range.rows() * range.keys();
    }
  });
}

void check_range(const AttentionShape& shape, const ScoreRange& range) {
  const bool inside = range.batch_begin >= 0 && range.batch_end <= shape.batch &&
                      range.head_begin >= 0 && range.head_end <= shape.heads &&
                      range.row_begin >= 0 && range.row_begin <= range.row_end &&
                      range.row_end <= shape.queries && range.key_begin >= 0 &&
                      range.key_begin <= range.key_end && range.key_end <= shape.keys;
  check(inside, "weights",
        "batch {}, head {}, rows {} to {} and keys {} to {} do not lie inside [{}, {}, {}, {}]",
        range.batch_begin, range.head_begin, range.row_begin, range.row_end, range.key_begin,
        range.key_end, shape.batch, shape.heads, shape.queries, shape.keys);
}
}  // namespace

ScorePattern::~ScorePattern() = default;
int64_t ScorePattern::products() const { return 0; }

void RowCollector::attention(const std::string& /*name*/, const AttentionRecord& record) {
  row_max.push_back(record.row_max);
  row_inverse.push_back(record.row_inverse);
}

UnobservedScope::UnobservedScope() : before_(t_observer) { t_observer = nullptr; }
UnobservedScope::~UnobservedScope() { t_observer = before_; }

int64_t adjusted_attentions() { return t_adjusted; }

void adjust_by(Observer& observer, const std::string& place, AttentionOptions& options) {
  const AttentionOptions before = options;
  observer.adjust(place, options);
  const bool same = options.position == before.position && options.scale == before.scale &&
                    options.softcap == before.softcap && same_tensor(options.mask, before.mask) &&
                    same_tensor(options.bias, before.bias) &&
                    same_tensor(options.key_padding, before.key_padding) &&
                    options.pattern == before.pattern;
  t_adjusted += same ? 0 : 1;
}

AttentionRecord record_of(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& output,
                          const AttentionOptions& options, const FlashResult& flash) {
  return {widened_for_observers(q),
          widened_for_observers(k),
          widened_for_observers(v),
          widened_for_observers(output),
          options,
          flash.row_max,
          flash.row_inverse,
          {},
          {}};
}

Tensor AttentionRecord::lse() const {
  constexpr double kLn2 = 0.69314718055994530942;
  Tensor result = Tensor::empty(row_max.shape(), row_max.dtype());
  dispatch_float(row_max.dtype(), "attention", [&](auto zero) {
    using T = decltype(zero);
    const T* max = row_max.data<T>();
    const T* inverse = row_inverse.data<T>();
    T* out = result.data<T>();
    for (int64_t i = 0; i < result.numel(); ++i) {
      const double sum = load_double(inverse[i]);
      out[i] = from_double<T>(sum == 0 ? -std::numeric_limits<double>::infinity()
                                       : load_double(max[i]) * kLn2 - std::log(sum));
    }
  });
  return result;
}

const Tensor& AttentionRecord::values_of(int64_t batch, int64_t row) const {
  const bool global =
      global_rows.defined() && global_rows.data<uint8_t>()[batch * global_rows.size(1) + row] != 0;
  return global ? global_v : v;
}

AttentionRecord AttentionRecord::part(int64_t batch, int64_t head, int64_t row_begin,
                                      int64_t row_end, int64_t key_begin, int64_t key_end) const {
  const AttentionShape shape = check_attention(q, k, v, options);
  check_range(shape, {batch, batch + 1, head, head + 1, row_begin, row_end, key_begin, key_end});
  const auto rows_of = [batch](const Tensor& x, int64_t h, int64_t begin, int64_t end) {
    return slice(slice(slice(x, 0, batch, batch + 1), 1, h, h + 1), 2, begin, end);
  };
  const int64_t shared = head / (shape.heads / shape.num_kv_heads);
  AttentionRecord result;
  result.q = rows_of(q, head, row_begin, row_end);
  result.k = rows_of(k, shared, key_begin, key_end);
  result.v = rows_of(v, shared, key_begin, key_end);
  result.output = rows_of(output, head, row_begin, row_end);
  if (global_rows.defined()) {
    result.global_v = rows_of(global_v, shared, key_begin, key_end);
    result.global_rows =
        slice(slice(global_rows, 0, batch, batch + 1), 1, row_begin, row_end).contiguous();
  }
  result.options = for_range(
      options, {batch, batch + 1, head, head + 1, row_begin, row_end, key_begin, key_end});
  result.row_max = rows_of(row_max, head, row_begin, row_end).contiguous();
  result.row_inverse = rows_of(row_inverse, head, row_begin, row_end).contiguous();
  return result;
}

namespace {

/// A part of a pattern that has been read.
class ReadPattern final : public ScorePattern {
 public:
  explicit ReadPattern(Tensor read) : read_(std::move(read)) {}
  Tensor part(int64_t /*batch*/, int64_t /*head*/, std::span<const int64_t> /*rows*/,
              int64_t /*key_begin*/, int64_t /*key_end*/) const override {
    return read_;
  }

 private:
  Tensor read_;
};

/// Weights by a pattern, a chunk of keys at a time: none where no query sees any of it.
Tensor pattern_weights(const AttentionRecord& record, int64_t batch, int64_t head,
                       std::pair<int64_t, int64_t> rows, std::pair<int64_t, int64_t> keys) {
  constexpr int64_t kKeys = 512;
  const int64_t count = rows.second - rows.first;
  std::vector<int64_t> index(static_cast<size_t>(count));
  std::iota(index.begin(), index.end(), rows.first);
  std::vector<Tensor> parts;
  AttentionRecord plain = record;
  plain.options.pattern = nullptr;
  for (int64_t begin = keys.first; begin < keys.second; begin += kKeys) {
    const int64_t end = std::min(begin + kKeys, keys.second);
    const Tensor seen = record.options.pattern->part(batch, head, index, begin, end);
    if (!seen.defined()) {
      parts.push_back(Tensor::zeros({count, end - begin}, record.row_max.dtype()));
      continue;
    }
    AttentionRecord own = plain.part(batch, head, rows.first, rows.second, begin, end);
    own.options.pattern = std::make_shared<ReadPattern>(seen);
    own.options = for_range(own.options, {0, 1, 0, 1, 0, count, 0, end - begin});
    parts.push_back(own.weights(0, 0, 0, count, 0, end - begin));
  }
  return parts.empty()       ? Tensor::zeros({count, 0}, record.row_max.dtype())
         : parts.size() == 1 ? parts.front()
                             : concat(parts, 1);
}

}  // namespace

Tensor AttentionRecord::weights(int64_t batch, int64_t head, int64_t row_begin, int64_t row_end,
                                int64_t key_begin, int64_t key_end) const {
  if (options.pattern) {
    return pattern_weights(*this, batch, head, {row_begin, row_end}, {key_begin, key_end});
  }
  const AttentionShape shape = check_attention(q, k, v, options);
  check_range(shape, {batch, batch + 1, head, head + 1, row_begin, row_end, key_begin, key_end});
  Tensor result = Tensor::empty({row_end - row_begin, key_end - key_begin}, row_max.dtype());
  write_weights(*this, shape,
                {{.b = batch,
                  .h = head,
                  .row_begin = row_begin,
                  .row_end = row_end,
                  .key_begin = key_begin,
                  .key_end = key_end}},
                result);
  return result;
}

Tensor AttentionRecord::weights(int64_t batch, int64_t head) const {
  return weights(batch, head, 0, q.size(2), 0, k.size(2));
}

Tensor AttentionRecord::all_weights() const {
  const AttentionShape shape = check_attention(q, k, v, options);
  std::vector<kernels::WeightRange> heads;
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t h = 0; h < shape.heads; ++h) {
      heads.push_back({.b = b, .h = h, .row_end = shape.queries, .key_end = shape.keys});
    }
  }
  if (options.pattern) {
    std::vector<Tensor> parts;
    parts.reserve(heads.size());
    for (const kernels::WeightRange& each : heads) {
      parts.push_back(weights(each.b, each.h));
    }
    return reshape(concat(parts, 0), shape.scores());
  }
  Tensor result = Tensor::empty(shape.scores(), row_max.dtype());
  write_weights(*this, shape, heads, result);
  return result;
}

Observer::Observer() : outer_(t_observer) { t_observer = this; }
Observer::~Observer() { t_observer = outer_; }
Observer* Observer::current() { return t_observer; }
Tensor Observer::show(const std::string& name, const Tensor& value) {
  // To f32 and back changes no bit, and gradients take the same way.
  return is_narrow(value.dtype()) ? cast(activation(name, cast(value, DType::f32)), value.dtype())
                                  : activation(name, value);
}
Tensor Observer::activation(const std::string& /*name*/, const Tensor& value) { return value; }
bool Observer::wants(const std::string& /*name*/) { return false; }
void Observer::attention(const std::string& /*name*/, const AttentionRecord& /*record*/) {}
void Observer::adjust(const std::string& /*name*/, AttentionOptions& /*options*/) {}

HookScope::HookScope(const char* name, int64_t index) : active_(t_observer != nullptr) {
  if (!active_) {
    return;
  }
  std::string& place = t_place.get();
  length_ = place.size();
  if (!place.empty()) {
    place += '.';
  }
  place += name;
  if (index >= 0) {
    place += '.';
    place += std::to_string(index);
  }
}

HookScope::~HookScope() {
  if (active_) {
    t_place.get().resize(length_);
  }
}

std::string HookScope::path(const char* name) {
  const std::string& place = t_place.get();
  if (*name == '\0') {
    return place;
  }
  return place.empty() ? name : place + "." + name;
}

}  // namespace heed
