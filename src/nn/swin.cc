#include <cmath>

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

/// Windows of a grid as a pattern over all pairs of its places.
class GridPattern final : public ScorePattern {
 public:
  GridPattern(const Grid& grid, const Tensor& bias_table) : grid_(grid) {
    if (bias_table.defined()) {
      table_ = bias_table.detach().to(DType::f32).contiguous();
    }
    for (int64_t i = 0; i < grid.height * grid.width; ++i) {
      const int64_t row = (i / grid.width + grid.height - grid.shift) % grid.height;
      const int64_t column = (i % grid.width + grid.width - grid.shift) % grid.width;
      const int64_t region = grid.shift == 0
                                 ? 0
                                 : 3 * stripe(row, grid.height, grid.window, grid.shift) +
                                       stripe(column, grid.width, grid.window, grid.shift);
      const int64_t window = row / grid.window * (grid.width / grid.window) + column / grid.window;
      places_.push_back({9 * window + region, row % grid.window, column % grid.window});
    }
  }

  Tensor part(int64_t /*batch*/, int64_t head, std::span<const int64_t> rows, int64_t key_begin,
              int64_t key_end) const override {
    const auto count = static_cast<int64_t>(rows.size());
    Tensor result = Tensor::full({count, key_end - key_begin}, -INFINITY);
    float* out = result.data<float>();
    bool any = false;
    for (const int64_t row : rows) {
      const Place& query = places_[static_cast<size_t>(row)];
      for (int64_t j = key_begin; j < key_end; ++j, ++out) {
        const Place& key = places_[static_cast<size_t>(j)];
        if (key.region == query.region) {
          *out = bias(query, key, head);
          any = true;
        }
      }
    }
    return any ? result : Tensor();
  }

 private:
  struct Place {
    int64_t region, row, column;  // of the windows' parts that see each other; inside the window
  };

  float bias(const Place& query, const Place& key, int64_t head) const {
    if (!table_.defined()) {
      return 0.0F;
    }
    const int64_t span = 2 * grid_.window - 1;
    const int64_t at = (query.row - key.row + grid_.window - 1) * span + query.column - key.column +
                       grid_.window - 1;
    return table_.data<float>()[at * grid_.heads + head];
  }

  Grid grid_;
  Tensor table_;  // [(2·window - 1)², heads]
  std::vector<Place> places_;
};

/// The statistics of windows' rows [B·windows, H, window²] as those of the grid's, [B, H, T].
Tensor rows_of_grid(const Tensor& rows, const Grid& grid) {
  return squeeze(from_windows(unsqueeze(rows, 3), grid), 3).contiguous();
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
  if (shows_whole_map("hook_grid_map")) {
    PatternInputs whole{in.q, in.k, in.v, {}};
    whole.options.pattern = std::make_shared<GridPattern>(grid, in.bias_table);
    const auto sparse = [&] {
      RowCollector rows;
      const Tensor output = swin_attention(in);
      return FlashResult{output, rows_of_grid(rows.row_max.front(), grid),
                         rows_of_grid(rows.row_inverse.front(), grid)};
    };
    return shown_by_pattern(whole, sparse, [&](const AttentionOptions& changed) {
      return attend_by_pattern(whole, changed);
    });
  }
  if (in.shift > 0) {
    options.mask = neighbours(grid);
  }
  const Tensor out =
      attention(to_windows(in.q, grid), to_windows(in.k, grid), to_windows(in.v, grid), options);
  return from_windows(out, grid);
}

}  // namespace heed
