#include "base/check.h"
#include "heed/ops.h"
#include "heed/transformer.h"
#include "nn/heads.h"

namespace heed {
namespace {

constexpr const char* kSwin = "swin_attention";

/// x moved up and to the left by `shift` around the grid's edges; axes 2 and 3.
Tensor roll(const Tensor& x, int64_t shift) {
  Tensor result = x;
  for (const int axis : {2, 3}) {
    const int64_t dim = x.size(axis);
    const int64_t by = ((shift % dim) + dim) % dim;
    if (by != 0) {
      result = concat({slice(result, axis, by, dim), slice(result, axis, 0, by)}, axis);
    }
  }
  return result;
}

struct Grid {
  int64_t batch, heads, height, width, window, shift;

  int64_t windows() const { return (height / window) * (width / window); }
  int64_t positions() const { return window * window; }
};

/// [B, H, T, D] -> [B·windows, H, window², D]
Tensor to_windows(const Tensor& x, const Grid& grid) {
  const int64_t depth = x.size(3);
  const Tensor rolled =
      roll(reshape(x, {grid.batch, grid.heads, grid.height, grid.width, depth}), grid.shift);
  const Tensor cut = reshape(rolled, {grid.batch, grid.heads, grid.height / grid.window,
                                      grid.window, grid.width / grid.window, grid.window, depth});
  return reshape(permute(cut, {0, 2, 4, 1, 3, 5, 6}),
                 {grid.batch * grid.windows(), grid.heads, grid.positions(), depth});
}

Tensor from_windows(const Tensor& x, const Grid& grid) {
  const int64_t depth = x.size(3);
  const Tensor cut = reshape(x, {grid.batch, grid.height / grid.window, grid.width / grid.window,
                                 grid.heads, grid.window, grid.window, depth});
  const Tensor rolled = reshape(permute(cut, {0, 3, 1, 4, 2, 5, 6}),
                                {grid.batch, grid.heads, grid.height, grid.width, depth});
  return reshape(roll(rolled, -grid.shift),
                 {grid.batch, grid.heads, grid.height * grid.width, depth});
}

/// Which of the three stripes a row or column of the shifted grid belongs to: positions that were
/// not neighbours before the shift are in different ones.
int64_t stripe(int64_t position, int64_t dim, int64_t window, int64_t shift) {
  if (position < dim - window) {
    return 0;
  }
  return position < dim - shift ? 1 : 2;
}

/// u8 [B·windows, 1, window², window²]: 1 where two positions of a window were neighbours.
Tensor neighbours(const Grid& grid) {
  const int64_t columns = grid.width / grid.window;
  Tensor keep = Tensor::empty({grid.batch * grid.windows(), 1, grid.positions(), grid.positions()},
                              DType::u8);
  uint8_t* out = keep.data<uint8_t>();
  const auto region = [&](int64_t window, int64_t position) {
    const int64_t row = window / columns * grid.window + position / grid.window;
    const int64_t column = window % columns * grid.window + position % grid.window;
    return stripe(row, grid.height, grid.window, grid.shift) * 3 +
           stripe(column, grid.width, grid.window, grid.shift);
  };
  for (int64_t n = 0; n < grid.batch * grid.windows(); ++n) {
    const int64_t window = n % grid.windows();
    for (int64_t i = 0; i < grid.positions(); ++i) {
      for (int64_t j = 0; j < grid.positions(); ++j) {
        *out++ = region(window, i) == region(window, j) ? 1 : 0;
      }
    }
  }
  return keep;
}

/// [1, H, window², window²] of a table [(2·window - 1)², H].
Tensor table_bias(const Tensor& table, const Grid& grid) {
  const Tensor index = Tensor::empty({grid.positions(), grid.positions()}, DType::i64);
  const int64_t span = 2 * grid.window - 1;
  for (int64_t i = 0; i < grid.positions(); ++i) {
    for (int64_t j = 0; j < grid.positions(); ++j) {
      const int64_t rows = i / grid.window - j / grid.window + grid.window - 1;
      const int64_t columns = i % grid.window - j % grid.window + grid.window - 1;
      index.data<int64_t>()[i * grid.positions() + j] = rows * span + columns;
    }
  }
  return unsqueeze(permute(embedding(table, index), {2, 0, 1}), 0);
}

/// Whether an observer asks for weights over the whole grid, and it is not too large.
bool shows_whole_grid(const Grid& grid) {
  constexpr int64_t kMost = 4096;
  Observer* observer = Observer::current();
  return observer != nullptr && grid.height * grid.width <= kMost &&
         observer->wants(HookScope::path("hook_grid_map"));
}

/// The same attention over all pairs of places, for observers: a mask hides other windows.
Tensor whole_grid_attention(const SwinInputs& in, const Grid& grid) {
  const int64_t count = grid.height * grid.width;
  const int64_t span = 2 * grid.window - 1;
  struct Place {
    int64_t window, region, row, column;
  };
  std::vector<Place> places;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = (i / grid.width + grid.height - grid.shift) % grid.height;
    const int64_t column = (i % grid.width + grid.width - grid.shift) % grid.width;
    const int64_t region = grid.shift == 0
                               ? 0
                               : 3 * stripe(row, grid.height, grid.window, grid.shift) +
                                     stripe(column, grid.width, grid.window, grid.shift);
    places.push_back({row / grid.window * (grid.width / grid.window) + column / grid.window, region,
                      row % grid.window, column % grid.window});
  }
  Tensor mask = Tensor::empty({1, 1, count, count}, DType::u8);
  const Tensor index = Tensor::zeros({count, count}, DType::i64);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < count; ++j) {
      const Place &query = places[static_cast<size_t>(i)], &key = places[static_cast<size_t>(j)];
      const bool near = query.window == key.window && query.region == key.region;
      mask.data<uint8_t>()[i * count + j] = near;
      index.data<int64_t>()[i * count + j] = near ? (query.row - key.row + grid.window - 1) * span +
                                                        query.column - key.column + grid.window - 1
                                                  : 0;
    }
  }
  AttentionOptions options;
  options.mask = mask;
  options.bias = in.bias_table.defined()
                     ? unsqueeze(permute(embedding(in.bias_table, index), {2, 0, 1}), 0)
                     : Tensor();
  return attention(in.q, in.k, in.v, options);
}

}  // namespace

Tensor swin_attention(const SwinInputs& in) {
  check(in.q.rank() == 4 && in.q.shape() == in.k.shape() && in.v.rank() == 4 &&
            in.v.size(1) == in.q.size(1) && in.v.size(2) == in.q.size(2),
        kSwin, "q {}, k {} and v {} must be [batch, heads, positions, depth] that agree",
        in.q.shape(), in.k.shape(), in.v.shape());
  check(in.height > 0 && in.width > 0 && in.q.size(2) == in.height * in.width, kSwin,
        "{} positions do not form a grid of {} × {}", in.q.size(2), in.height, in.width);
  check(in.window > 0 && in.height % in.window == 0 && in.width % in.window == 0, kSwin,
        "windows of {} do not divide a grid of {} × {}; pad it", in.window, in.height, in.width);
  check(in.shift >= 0 && in.shift < in.window, kSwin, "shift {} must lie in 0 … {}", in.shift,
        in.window - 1);
  const Grid grid{in.q.size(0), in.q.size(1), in.height, in.width, in.window, in.shift};
  AttentionOptions options;
  options.dropout = in.dropout;
  options.training = in.training;
  options.first_example = in.first_example * grid.windows();
  if (in.bias_table.defined()) {
    const Shape wanted{(2 * in.window - 1) * (2 * in.window - 1), grid.heads};
    check(in.bias_table.shape() == wanted, kSwin, "bias table has shape {}, wanted {}",
          in.bias_table.shape(), wanted);
    options.bias = table_bias(in.bias_table, grid);
  }
  if (shows_whole_grid(grid)) {
    return shown_as_one([&] { return whole_grid_attention(in, grid); },
                        [&] { return swin_attention(in); });
  }
  if (in.shift > 0) {
    options.mask = neighbours(grid);
  }
  const Tensor out =
      attention(to_windows(in.q, grid), to_windows(in.k, grid), to_windows(in.v, grid), options);
  return from_windows(out, grid);
}

}  // namespace heed
