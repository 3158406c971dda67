#include <cstring>

#include "base/check.h"
#include "base/parallel.h"
#include "heed/tensor.h"
#include "tensor/dispatch.h"
#include "tensor/walk.h"

namespace heed {
namespace {

/// A strided source seen from its contiguous copy: `chunk` elements lie together in both; before
/// them come `last`, the fastest axis of the copy, and `dense`, the fastest axis of the source.
struct Transpose {
  int last = -1;
  int dense = -1;  // -1: not a transpose
  int64_t chunk = 1;
};

Transpose find_transpose(const Shape& shape, const Shape& strides) {
  Transpose found;
  found.last = shape.rank() - 1;
  while (found.last >= 0 && (shape[found.last] == 1 || strides[found.last] == found.chunk)) {
    found.chunk *= shape[found.last--];
  }
  for (int axis = 0; axis < found.last; ++axis) {
    const int fastest = found.dense < 0 ? found.last : found.dense;
    if (shape[axis] > 1 && strides[axis] > 0 && strides[axis] < strides[fastest]) {
      found.dense = axis;
    }
  }
  return found;
}

/// Copies in blocks of both axes, so that what one line of a block brings into the cache serves the
/// next. `to` is contiguous.
template <class T>
void copy_transposed(T* to, const T* from, const Shape& shape, const Shape& strides,
                     const Transpose& how) {
  const int64_t block = how.chunk == 1 ? 32 : 16;
  const int last = how.last;
  const int dense = how.dense;
  const int64_t chunk = how.chunk;
  const Shape out = contiguous_strides(shape);
  // A tile is a strip of about 16,384 elements: `block` lines along the dense axis.
  const int64_t strip = std::max<int64_t>(block, 16384 / (block * chunk) / block * block);
  const int64_t rows = (shape[dense] + block - 1) / block;
  const int64_t strips = (shape[last] + strip - 1) / strip;
  const int64_t matrices = shape.numel() / (shape[dense] * shape[last] * chunk);
  parallel_for(matrices * rows * strips, [&](int64_t tile) {
    int64_t rest = tile / strips / rows;
    int64_t into = 0;
    int64_t out_of = 0;
    for (int axis = last - 1; axis >= 0; --axis) {
      if (axis != dense) {
        into += rest % shape[axis] * out[axis];
        out_of += rest % shape[axis] * strides[axis];
        rest /= shape[axis];
      }
    }
    const int64_t row = tile / strips % rows * block;
    const int64_t row_end = std::min(row + block, shape[dense]);
    const int64_t strip_end = std::min((tile % strips + 1) * strip, shape[last]);
    const T* source = from + out_of;
    T* target = to + into;
    for (int64_t column = tile % strips * strip; column < strip_end; column += block) {
      const int64_t column_end = std::min(column + block, strip_end);
      if (chunk > 1) {  // along the source's own order: its chunks follow each other
        for (int64_t j = column; j < column_end; ++j) {
          for (int64_t i = row; i < row_end; ++i) {
            std::memcpy(static_cast<void*>(target + i * out[dense] + j * chunk),
                        source + i * strides[dense] + j * strides[last],
                        static_cast<size_t>(chunk) * sizeof(T));
          }
        }
        continue;
      }
      for (int64_t i = row; i < row_end; ++i) {
        for (int64_t j = column; j < column_end; ++j) {
          target[i * out[dense] + j] = source[i * strides[dense] + j * strides[last]];
        }
      }
    }
  });
}

/// Memory that does not overlap is copied by all threads.
void copy_bytes(char* to, const char* from, int64_t bytes) {
  constexpr int64_t kPiece = 1 << 18;
  if (to < from + bytes && from < to + bytes) {
    std::memmove(to, from, static_cast<size_t>(bytes));
    return;
  }
  parallel_ranges(bytes, kPiece, [&](int64_t begin, int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

template <class To, class From>
void copy_row(To* out, int64_t out_step, const From* in, int64_t in_step, int64_t count) {
  if constexpr (std::is_same_v<To, From>) {
    if (out_step == 1 && in_step == 1) {
      std::memmove(static_cast<void*>(out), in, static_cast<size_t>(count) * sizeof(To));
      return;
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<To, From>) {
      out[i * out_step] = in[i * in_step];
    } else if constexpr (std::is_integral_v<To> && std::is_integral_v<From>) {
      out[i * out_step] = static_cast<To>(in[i * in_step]);
    } else {
      out[i * out_step] = from_double<To>(load_double(in[i * in_step]));
    }
  }
}

}  // namespace

void Tensor::copy_from(const Tensor& source) {
  check(shape() == source.shape(), "copy_from", "shape {} cannot take shape {}", shape(),
        source.shape());
  bump_version();
  if (dtype() == source.dtype() && is_contiguous() && source.is_contiguous()) {
    copy_bytes(static_cast<char*>(raw()), static_cast<const char*>(source.raw()), bytes());
    return;
  }
  Transpose how;
  if (dtype() == source.dtype() && is_contiguous() && numel() > 0 && !shares_storage_with(source)) {
    how = find_transpose(shape(), source.strides());
  }
  dispatch_dtype(dtype(), "copy_from", [&](auto to_tag) {
    using To = decltype(to_tag);
    To* to = static_cast<To*>(raw());
    if (how.dense >= 0) {
      copy_transposed(to, static_cast<const To*>(source.raw()), shape(), source.strides(), how);
      return;
    }
    dispatch_dtype(source.dtype(), "copy_from", [&](auto from_tag) {
      using From = decltype(from_tag);
      const auto* from = static_cast<const From*>(source.raw());
      walk_rows<2>(shape(), {&strides(), &source.strides()},
                   [&](std::array<int64_t, 2> at, std::array<int64_t, 2> step, int64_t count) {
                     copy_row(to + at[0], step[0], from + at[1], step[1], count);
                   });
    });
  });
}

}  // namespace heed
