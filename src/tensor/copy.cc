#include <cstring>

#include "base/check.h"
#include "base/parallel.h"
#include "heed/tensor.h"
#include "tensor/dispatch.h"
#include "tensor/walk.h"

namespace heed {
namespace {

/// The axis along which a strided source lies densely, where that is not the last axis that counts
/// (extent above 1); -1 otherwise. Such a copy is a transpose.
int dense_axis(const Tensor& source) {
  int last = source.rank() - 1;
  while (last >= 0 && source.shape()[last] == 1) {
    --last;
  }
  if (last < 0 || source.strides()[last] <= 1) {
    return -1;
  }
  for (int axis = 0; axis < last; ++axis) {
    if (source.shape()[axis] > 1 && source.strides()[axis] == 1) {
      return axis;
    }
  }
  return -1;
}

/// A transpose in square blocks: both sides of a block stay in the first cache. `to` is contiguous.
template <class T>
void copy_transposed(T* to, const T* from, const Shape& shape, const Shape& strides, int dense) {
  constexpr int64_t kBlock = 32;
  const int last = shape.rank() - 1;
  const Shape out = contiguous_strides(shape);
  const int64_t rows = (shape[dense] + kBlock - 1) / kBlock;
  const int64_t columns = (shape[last] + kBlock - 1) / kBlock;
  const int64_t matrices = shape.numel() / (shape[dense] * shape[last]);
  parallel_for(matrices * rows, [&](int64_t tile) {
    int64_t rest = tile / rows;
    int64_t into = 0;
    int64_t out_of = 0;
    for (int axis = last - 1; axis >= 0; --axis) {
      if (axis != dense) {
        into += rest % shape[axis] * out[axis];
        out_of += rest % shape[axis] * strides[axis];
        rest /= shape[axis];
      }
    }
    const int64_t row = tile % rows * kBlock;
    const int64_t row_end = std::min(row + kBlock, shape[dense]);
    for (int64_t block = 0; block < columns; ++block) {
      const int64_t column = block * kBlock;
      const int64_t column_end = std::min(column + kBlock, shape[last]);
      for (int64_t i = row; i < row_end; ++i) {
        T* line = to + into + i * out[dense];
        const T* source = from + out_of + i;
        for (int64_t j = column; j < column_end; ++j) {
          line[j] = source[j * strides[last]];
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
  check(shape() == source.shape(), "copy_from", "shape {} cannot take shape {}",
        shape().to_string(), source.shape().to_string());
  bump_version();
  if (dtype() == source.dtype() && is_contiguous() && source.is_contiguous()) {
    copy_bytes(static_cast<char*>(raw()), static_cast<const char*>(source.raw()), bytes());
    return;
  }
  const bool transposes = dtype() == source.dtype() && is_contiguous() && numel() > 0 &&
                          shape()[rank() - 1] > 1 && dense_axis(source) >= 0;
  dispatch_dtype(dtype(), "copy_from", [&](auto to_tag) {
    using To = decltype(to_tag);
    To* to = static_cast<To*>(raw());
    if (transposes) {
      copy_transposed(to, static_cast<const To*>(source.raw()), shape(), source.strides(),
                      dense_axis(source));
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
