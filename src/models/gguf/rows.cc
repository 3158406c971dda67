#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "heed/io.h"
#include "models/gguf/model.h"

namespace heed::gguf {
namespace {

/// Copies whole rows, so that quantised blocks stay as they are. Row i of the result is row
/// source(i).
template <class Source>
Tensor rows_from(const Tensor& x_in, const Source& source) {
  const int64_t rows = x_in.size(0);
  const Tensor x = x_in.contiguous();
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  const int64_t bytes = bytes_of(x.dtype(), x.numel()) / std::max<int64_t>(rows, 1);
  const auto* in = static_cast<const char*>(x.raw());
  auto* out = static_cast<char*>(y.raw());
  for (int64_t row = 0; row < rows; ++row) {
    std::memcpy(out + row * bytes, in + source(row) * bytes, static_cast<size_t>(bytes));
  }
  return y;
}

/// Row (head, index) of the result is row (head, source(index)).
template <class Source>
Tensor reordered(const Tensor& x, int64_t heads, const Source& source) {
  const int64_t rows = x.size(0);
  check(heads > 0 && rows % (2 * heads) == 0, "gguf", "{} rows are not {} heads of an even width",
        rows, heads);
  const int64_t width = rows / heads;
  return rows_from(
      x, [&](int64_t row) { return row / width * width + source(row % width, width / 2); });
}

/// How queries, keys and values share the rows of one projection.
struct QkvRows {
  int64_t heads, groups, shared, head_dim;

  QkvRows(int64_t rows, int64_t heads_in, int64_t head_dim_in)
      : heads(heads_in), groups(0), shared(0), head_dim(head_dim_in) {
    const int64_t all = head_dim > 0 && rows % head_dim == 0 ? rows / head_dim : 0;
    groups = (all - heads) / 2;
    check(heads > 0 && groups > 0 && heads + 2 * groups == all && heads % groups == 0, "gguf",
          "{} rows are not the queries, keys and values of {} heads of {}", rows, heads, head_dim);
    shared = heads / groups;
  }
  /// Where row `row` of the groups lies in the blocks.
  int64_t in_blocks(int64_t row) const {
    const int64_t head = row / head_dim;
    const int64_t group = head / (shared + 2);
    const int64_t part = head % (shared + 2);
    const int64_t block = part < shared    ? group * shared + part
                          : part == shared ? heads + group
                                           : heads + groups + group;
    return block * head_dim + row % head_dim;
  }
};

}  // namespace

int64_t rows_before_positions(const Json& config) {
  return config.integer_or("pad_token_id", 1, 0, int64_t{1} << 24) + 1;
}

Tensor qkv_in_groups(const Tensor& x, int64_t heads, int64_t head_dim) {
  const QkvRows rows(x.size(0), heads, head_dim);
  return rows_from(x, [&](int64_t row) { return rows.in_blocks(row); });
}

Tensor qkv_in_blocks(const Tensor& x, int64_t heads, int64_t head_dim) {
  const QkvRows rows(x.size(0), heads, head_dim);
  std::vector<int64_t> from(static_cast<size_t>(x.size(0)));
  for (int64_t row = 0; row < x.size(0); ++row) {
    from[static_cast<size_t>(rows.in_blocks(row))] = row;
  }
  return rows_from(x, [&](int64_t row) { return from[static_cast<size_t>(row)]; });
}

Tensor rows_in_pairs(const Tensor& x, int64_t heads) {
  return reordered(x, heads,
                   [](int64_t place, int64_t half) { return place % 2 * half + place / 2; });
}

Tensor rows_in_halves(const Tensor& x, int64_t heads) {
  return reordered(x, heads,
                   [](int64_t place, int64_t half) { return place % half * 2 + place / half; });
}

}  // namespace heed::gguf
