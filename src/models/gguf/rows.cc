#include <cstring>

#include "base/check.h"
#include "models/gguf/model.h"

namespace heed::gguf {
namespace {

/// Copies whole rows, so that quantized blocks stay as they are. Row (head, index) of the result is
/// row (head, source(index)).
template <class Source>
Tensor reordered(const Tensor& x_in, int64_t heads, const Source& source) {
  const int64_t rows = x_in.size(0);
  check(heads > 0 && rows % (2 * heads) == 0, "gguf", "{} rows are not {} heads of an even width",
        rows, heads);
  const Tensor x = x_in.contiguous();
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  const int64_t width = rows / heads;
  const int64_t bytes = bytes_of(x.dtype(), x.numel()) / rows;
  const auto* in = static_cast<const char*>(x.raw());
  auto* out = static_cast<char*>(y.raw());
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t from = row / width * width + source(row % width, width / 2);
    std::memcpy(out + row * bytes, in + from * bytes, static_cast<size_t>(bytes));
  }
  return y;
}

}  // namespace

Tensor rows_in_pairs(const Tensor& x, int64_t heads) {
  return reordered(x, heads,
                   [](int64_t place, int64_t half) { return place % 2 * half + place / 2; });
}

Tensor rows_in_halves(const Tensor& x, int64_t heads) {
  return reordered(x, heads,
                   [](int64_t place, int64_t half) { return place % half * 2 + place / half; });
}

}  // namespace heed::gguf
