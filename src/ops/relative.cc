#include "ops/relative.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/parallel.h"
#include "heed/tensor.h"
#include "tensor/dispatch.h"

namespace heed {
namespace {

constexpr int64_t kRows = 64;  // a tile's

int64_t column(int64_t i, int64_t j, int64_t reach, int64_t offset) {
  return std::clamp(j - i - offset, -reach, reach) + reach;
}

Tensor spread(const Tensor& x, int64_t keys, int64_t offset) {
  const Tensor in = x.contiguous();
  const int64_t queries = x.size(2);
  const int64_t columns = x.size(3);
  Tensor out = Tensor::empty({x.size(0), x.size(1), queries, keys}, x.dtype());
  dispatch_float(x.dtype(), "relative", [&](auto zero) {
    using T = decltype(zero);
    parallel_ranges(x.size(0) * x.size(1) * queries, kRows, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t j = 0; j < keys; ++j) {
          out.data<T>()[row * keys + j] =
              in.data<T>()[row * columns + column(row % queries, j, columns / 2, offset)];
        }
      }
    });
  });
  return out;
}

Tensor collect(const Tensor& w, int64_t reach, int64_t offset) {
  const Tensor in = w.contiguous();
  const int64_t queries = w.size(2);
  const int64_t keys = w.size(3);
  const int64_t columns = 2 * reach + 1;
  Tensor out = Tensor::zeros({w.size(0), w.size(1), queries, columns}, w.dtype());
  dispatch_float(w.dtype(), "relative", [&](auto zero) {
    using T = decltype(zero);
    parallel_ranges(w.size(0) * w.size(1) * queries, kRows, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t j = 0; j < keys; ++j) {
          T& into = out.data<T>()[row * columns + column(row % queries, j, reach, offset)];
          into = from_double<T>(load_double(into) + load_double(in.data<T>()[row * keys + j]));
        }
      }
    });
  });
  return out;
}

/// The sums of the diagonals of dy [1, H, Tq, Tk], as [H, Tq + Tk - 1].
Tensor diagonal_sums(const Tensor& dy) {
  const Tensor in = dy.contiguous();
  const int64_t heads = dy.size(1);
  const int64_t queries = dy.size(2);
  const int64_t keys = dy.size(3);
  const int64_t distances = std::max<int64_t>(queries + keys - 1, 0);
  Tensor out = Tensor::empty({heads, distances}, dy.dtype());
  dispatch_float(dy.dtype(), "relative", [&](auto zero) {
    using T = decltype(zero);
    parallel_for(heads, [&](int64_t h) {
      std::vector<double> sums(static_cast<size_t>(distances));
      for (int64_t i = 0; i < queries; ++i) {
        const T* row = in.data<T>() + (h * queries + i) * keys;
        double* into = sums.data() + (queries - 1 - i);
        for (int64_t j = 0; j < keys; ++j) {
          into[j] += load_double(row[j]);
        }
      }
      std::transform(sums.begin(), sums.end(), out.data<T>() + h * distances,
                     [](double sum) { return from_double<T>(sum); });
    });
  });
  return out;
}

}  // namespace

Tensor spread_distances(const Tensor& x, int64_t keys, int64_t offset) {
  const int64_t reach = x.size(3) / 2;
  return record("spread_distances", spread(x, keys, offset), {x},
                [reach, offset](const Tensor& dy) {
                  return std::vector<Tensor>{collect(dy, reach, offset)};
                });
}

Tensor collect_distances(const Tensor& w, int64_t reach, int64_t offset) {
  const int64_t keys = w.size(3);
  return record(
      "collect_distances", collect(w, reach, offset), {w},
      [keys, offset](const Tensor& dy) { return std::vector<Tensor>{spread(dy, keys, offset)}; });
}

Tensor by_distance(const Tensor& table, int64_t queries, int64_t keys) {
  const int64_t distances = std::max<int64_t>(queries + keys - 1, 0);
  check(table.rank() == 2 && table.size(1) == distances, "by_distance",
        "a table for {} queries and {} keys must be [heads, {}], not {}", queries, keys, distances,
        table.shape());
  const Tensor flat = table.contiguous();
  const Tensor view =
      flat.alias({1, table.size(0), queries, keys}, {table.size(0) * distances, distances, -1, 1},
                 std::max<int64_t>(queries - 1, 0));
  return record("by_distance", view, {table},
                [](const Tensor& dy) { return std::vector<Tensor>{diagonal_sums(dy)}; });
}

}  // namespace heed
