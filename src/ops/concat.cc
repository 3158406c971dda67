#include <cstring>

#include "base/parallel.h"
#include "ops/common.h"

namespace heed {
namespace {

/// The parts side by side along an axis, without history.
Tensor joined(const std::vector<Tensor>& parts, int axis) {
  Shape shape = parts.front().shape();
  shape[axis] = 0;
  for (const Tensor& part : parts) {
    shape[axis] += part.shape()[axis];
  }
  const DType type = parts.front().dtype();
  Tensor y = Tensor::empty(shape, type);
  const AxisSplit whole = split_at(shape, axis);
  int64_t at = 0;
  for (const Tensor& given : parts) {
    const Tensor part = given.contiguous();
    const int64_t row = bytes_of(type, part.shape()[axis] * whole.inner);
    const int64_t stride = bytes_of(type, whole.n * whole.inner);
    const int64_t offset = bytes_of(type, at * whole.inner);
    const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(row, 1));
    parallel_ranges(row == 0 ? 0 : whole.outer, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(static_cast<char*>(y.raw()) + i * stride + offset,
                    static_cast<const char*>(part.raw()) + i * row, static_cast<size_t>(row));
      }
    });
    at += part.shape()[axis];
  }
  return y;
}

/// The tensor of this shape whose parts along the axis these are already; undefined where they are
/// not.
Tensor whole_of(const std::vector<Tensor>& parts, int axis, const Shape& shape) {
  const Shape strides = contiguous_strides(shape);
  const Tensor& first = parts.front();
  int64_t at = 0;
  for (const Tensor& part : parts) {
    if (!part.shares_storage_with(first) || part.dtype() != first.dtype() ||
        part.strides() != strides ||
        part.raw() != static_cast<char*>(first.raw()) + bytes_of(first.dtype(), at)) {
      return {};
    }
    at += part.size(axis) * strides[axis];
  }
  return first.alias(shape, strides, 0);
}

std::vector<Tensor> pieces(const Tensor& x, const std::vector<int64_t>& sizes, int axis) {
  std::vector<Tensor> result;
  int64_t at = 0;
  for (const int64_t size : sizes) {
    Shape shape = x.shape();
    shape[axis] = size;
    result.push_back(x.alias(shape, x.strides(), at * x.strides()[axis]));
    at += size;
  }
  return result;
}

}  // namespace

Tensor concat(const std::vector<Tensor>& parts, int axis) {
  check(!parts.empty(), "concat", "needs at least one tensor");
  for (const Tensor& part : parts) {
    check_defined(part, "concat");
  }
  const Shape& first = parts.front().shape();
  const int a = first.axis(axis, "concat");
  std::vector<int64_t> sizes;
  for (const Tensor& part : parts) {
    check_same_dtype(parts.front(), part, "concat");
    check(!is_quantized(part.dtype()), "concat", "does not take {} tensors", name_of(part.dtype()));
    Shape alike = part.shape();
    if (alike.rank() == first.rank()) {
      alike[a] = first[a];
    }
    check(alike == first, "concat", "shapes {} and {} differ beyond axis {}", first, part.shape(),
          a);
    sizes.push_back(part.shape()[a]);
  }
  return record("concat", joined(parts, a), parts,
                [a, sizes](const Tensor& dy) { return pieces(dy, sizes, a); });
}

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int axis) {
  check_defined(x, "split");
  const int a = x.shape().axis(axis, "split");
  int64_t total = 0;
  for (const int64_t size : sizes) {
    check(size >= 0 && size <= x.shape()[a] - total, "split",
          "sizes [{}] do not add up to axis {} of shape {}", fmt::join(sizes, ", "), a, x.shape());
    total += size;
  }
  check(total == x.shape()[a], "split", "sizes [{}] do not add up to axis {} of shape {}",
        fmt::join(sizes, ", "), a, x.shape());
  const std::vector<Tensor> inputs{x};
  return record_multi("split", pieces(x, sizes, a), inputs,
                      [a, sizes, shape = x.shape(), type = x.dtype()](const auto& dys) {
                        std::vector<Tensor> parts = dys;
                        for (size_t i = 0; i < parts.size(); ++i) {
                          if (!parts[i].defined()) {
                            Shape part = shape;
                            part[a] = sizes[i];
                            parts[i] = Tensor::zeros(part, type);
                          }
                        }
                        const Tensor whole = whole_of(parts, a, shape);
                        return std::vector{whole.defined() ? whole : joined(parts, a)};
                      });
}

std::vector<Tensor> chunks(const Tensor& x, int64_t size, int axis) {
  check_defined(x, "chunks");
  check(size > 0, "chunks", "pieces of {}; a positive size is wanted", size);
  std::vector<int64_t> sizes;
  const int64_t dim = x.shape()[x.shape().axis(axis, "chunks")];
  for (int64_t begin = 0; begin < dim; begin += size) {
    sizes.push_back(std::min(size, dim - begin));
  }
  return split(x, sizes, axis);
}

Tensor stack(const std::vector<Tensor>& parts, int axis) {
  check(!parts.empty(), "stack", "needs at least one tensor");
  check_defined(parts.front(), "stack");
  const Shape& first = parts.front().shape();
  check(axis >= -first.rank() - 1 && axis <= first.rank(), "stack",
        "axis {} out of range for shape {}", axis, first);
  const int a = axis < 0 ? axis + first.rank() + 1 : axis;
  std::vector<Tensor> widened;
  for (const Tensor& part : parts) {
    check_defined(part, "stack");
    check(part.shape() == first, "stack", "shapes {} and {} differ", first, part.shape());
    widened.push_back(unsqueeze(part, a));
  }
  return concat(widened, a);
}

Tensor unfold_patches(const Tensor& images, int64_t patch_height, int64_t patch_width) {
  check_defined(images, "unfold_patches", "images");
  check(images.rank() == 4, "unfold_patches",
        "images {}; [batch, channels, height, width] is wanted", images.shape());
  const Shape& s = images.shape();
  check(patch_height > 0 && patch_width > 0 && s[2] % patch_height == 0 && s[3] % patch_width == 0,
        "unfold_patches", "patches of {} x {} do not tile images {}", patch_height, patch_width, s);
  const int64_t down = s[2] / patch_height;
  const int64_t across = s[3] / patch_width;
  const Tensor grid = reshape(images, {s[0], s[1], down, patch_height, across, patch_width});
  return reshape(permute(grid, {0, 2, 4, 1, 3, 5}),
                 {s[0], down * across, s[1] * patch_height * patch_width});
}

}  // namespace heed
