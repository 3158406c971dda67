#include <cmath>
#include <numbers>

#include "base/check.h"
#include "base/parallel.h"
#include "heed/runtime.h"
#include "heed/tensor.h"
#include "tensor/dispatch.h"

namespace heed {
namespace {

constexpr int64_t kGrain = 4096;  // elements per range

/// A tensor whose element i is value(i).
template <class Value>
Tensor filled(const char* op, const Shape& shape, DType type, Value&& value) {
  Tensor result = Tensor::empty(shape, type);
  dispatch_dtype(type, op, [&](auto tag) {
    using T = decltype(tag);
    T* out = result.data<T>();
    parallel_ranges(result.numel(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        out[i] = from_double<T>(value(i));
      }
    });
  });
  return result;
}

RandomKey key_of(const RandomOptions& options) {
  return options.seed ? RandomKey{*options.seed, 0} : next_random_key();
}

/// 53 random bits as a number in [0, 1).
double unit(uint32_t high, uint32_t low) {
  return static_cast<double>((uint64_t{high} << 32 | low) >> 11) * 0x1.0p-53;
}

void check_random(const char* op, const RandomOptions& options) {
  check(is_floating(options.dtype), op, "gives floating tensors, not {}", name_of(options.dtype));
}

}  // namespace

Tensor Tensor::ones(const Shape& shape, DType type) { return full(shape, 1.0, type); }

Tensor Tensor::arange(int64_t count, DType type) {
  check(count >= 0, "arange", "{} elements", count);
  return filled("arange", {count}, type, [](int64_t i) { return static_cast<double>(i); });
}

Tensor arange_integers(int64_t start, int64_t stop, int64_t step, DType type) {
  check(step != 0, "arange", "a step of 0 from {} to {} never ends", start, stop);
  // Unsigned differences do not overflow.
  const bool up = step > 0;
  const uint64_t way = up ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                          : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t size =
      up ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  const bool empty = up ? stop <= start : stop >= start;
  const auto count = empty ? 0 : static_cast<int64_t>((way - 1) / size + 1);
  Tensor result = Tensor::empty({count}, DType::i64);
  for (int64_t i = 0; i < count; ++i) {
    result.data<int64_t>()[i] = start + i * step;
  }
  return result.to(type);
}

Tensor arange_reals(double start, double stop, double step, DType type) {
  constexpr double kMost = 1e15;
  const double count = std::ceil((stop - start) / step);
  check(std::isfinite(count) && count < kMost, "arange", "from {} to {} in steps of {} never ends",
        start, stop, step);
  return filled("arange", {std::max<int64_t>(0, static_cast<int64_t>(count))}, type,
                [=](int64_t i) { return start + static_cast<double>(i) * step; });
}

// Element i takes the numbers that Random(seed) gives as its i-th.
Tensor rand(const Shape& shape, const RandomOptions& options) {
  check_random("rand", options);
  const RandomKey key = key_of(options);
  // What rounds up to 1 in a shorter type becomes the number below it.
  const double below_one = options.dtype == DType::f64   ? 1.0
                           : options.dtype == DType::f32 ? 1.0 - 0x1.0p-24
                           : options.dtype == DType::f16 ? 1.0 - 0x1.0p-11
                                                         : 1.0 - 0x1.0p-8;
  return filled("rand", shape, options.dtype, [=](int64_t i) {
    const auto words = philox(key.seed, key.stream, static_cast<uint64_t>(i) / 2);
    return std::min(i % 2 == 0 ? unit(words[0], words[1]) : unit(words[2], words[3]), below_one);
  });
}

Tensor randn(const Shape& shape, const RandomOptions& options) {
  check_random("randn", options);
  const RandomKey key = key_of(options);
  return filled("randn", shape, options.dtype, [=](int64_t i) {
    const auto words = philox(key.seed, key.stream, static_cast<uint64_t>(i));
    const double radius = std::sqrt(-2.0 * std::log(1.0 - unit(words[0], words[1])));
    return radius * std::cos(2.0 * std::numbers::pi * unit(words[2], words[3]));
  });
}

}  // namespace heed
