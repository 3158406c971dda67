#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/parallel.h"
#include "ops/common.h"

namespace heed {
namespace {

/// Indices of the first k elements of each row along the last axis of contiguous x, in order.
Tensor ordered_indices(const char* op, const Tensor& x, int64_t k, bool descending) {
  const int64_t n = x.size(-1);
  Shape shape = x.shape();
  shape[shape.rank() - 1] = k;
  Tensor indices = Tensor::empty(shape, DType::i64);
  const int64_t rows = shape.numel() == 0 ? 0 : x.numel() / n;
  dispatch_dtype(x.dtype(), op, [&](auto tag) {
    using T = decltype(tag);
    parallel_ranges(rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(n, 1)),
                    [&](int64_t begin, int64_t end) {
                      std::vector<double> values(static_cast<size_t>(n));
                      std::vector<int64_t> order(static_cast<size_t>(n));
                      for (int64_t row = begin; row < end; ++row) {
                        const T* from = x.data<T>() + row * n;
                        std::transform(from, from + n, values.begin(),
                                       [](T v) { return load_double(v); });
                        std::iota(order.begin(), order.end(), 0);
                        // NaN is the largest; of equals the first comes first.
                        const auto before = [&](int64_t i, int64_t j) {
                          const double a = values[static_cast<size_t>(i)];
                          const double b = values[static_cast<size_t>(j)];
                          const bool less = a < b || (std::isnan(b) && !std::isnan(a));
                          const bool more = b < a || (std::isnan(a) && !std::isnan(b));
                          return less == more ? i < j : descending ? more : less;
                        };
                        std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
                        std::copy_n(order.begin(), k, indices.data<int64_t>() + row * k);
                      }
                    });
  });
  return indices;
}

Ordered ordered(const char* op, const Tensor& x, int64_t k, int axis, bool descending) {
  const int last = x.rank() - 1;
  Tensor indices = ordered_indices(op, swap_axes(x, axis, last).contiguous(), k, descending);
  indices = swap_axes(indices, axis, last).contiguous();
  return {gather(x, axis, indices), indices};
}

}  // namespace

Ordered topk(const Tensor& x, int64_t k, int axis, bool largest) {
  check_defined(x, "topk");
  const int a = x.shape().axis(axis, "topk");
  check(k >= 0 && k <= x.shape()[a], "topk", "k = {} for axis {} of shape {}", k, a, x.shape());
  return ordered("topk", x, k, a, largest);
}

Ordered sort(const Tensor& x, int axis, bool descending) {
  check_defined(x, "sort");
  const int a = x.shape().axis(axis, "sort");
  return ordered("sort", x, x.shape()[a], a, descending);
}

}  // namespace heed
