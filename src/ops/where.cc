#include "ops/common.h"
#include "tensor/walk.h"

namespace heed {
namespace {

void check_condition(const Tensor& condition, const char* op, const char* name) {
  check_defined(condition, op, name);
  check(condition.dtype() == DType::boolean || condition.dtype() == DType::u8, op,
        "{} of {}; bool or u8 is wanted", name, name_of(condition.dtype()));
}

/// condition ? a : b with everything broadcast to one shape; a and b of one type.
Tensor chosen(const char* op, const Tensor& condition, const Tensor& a, const Tensor& b,
              const Shape& shape) {
  Tensor y = Tensor::empty(shape, a.dtype());
  const Shape strides_c = broadcast_strides(condition.shape(), condition.strides(), shape);
  const Shape strides_a = broadcast_strides(a.shape(), a.strides(), shape);
  const Shape strides_b = broadcast_strides(b.shape(), b.strides(), shape);
  dispatch_dtype(a.dtype(), op, [&](auto tag) {
    using T = decltype(tag);
    walk_rows<4>(shape, {&y.strides(), &strides_c, &strides_a, &strides_b},
                 [&](std::array<int64_t, 4> at, std::array<int64_t, 4> step, int64_t count) {
                   T* to = y.data<T>() + at[0];
                   const auto* keep = static_cast<const uint8_t*>(condition.raw()) + at[1];
                   const T* from_a = a.data<T>() + at[2];
                   const T* from_b = b.data<T>() + at[3];
                   for (int64_t i = 0; i < count; ++i) {
                     to[i * step[0]] =
                         keep[i * step[1]] != 0 ? from_a[i * step[2]] : from_b[i * step[3]];
                   }
                 });
  });
  return y;
}

/// Where torch.gather reads element i of its result: an offset into contiguous x.
class GatherPlaces {
 public:
  GatherPlaces(const Shape& x, const Shape& index, int axis, const int64_t* ids)
      : strides_(contiguous_strides(x)), index_(index), axis_(axis), ids_(ids) {}
  int64_t operator()(int64_t i) const {
    int64_t rest = i;
    int64_t at = ids_[i] * strides_[axis_];
    for (int a = index_.rank() - 1; a >= 0; --a) {
      at += a == axis_ ? 0 : rest % index_[a] * strides_[a];
      rest /= index_[a];
    }
    return at;
  }

 private:
  Shape strides_;
  Shape index_;
  int axis_;
  const int64_t* ids_;
};

}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  check_condition(condition, "where", "condition");
  check_defined(a, "where");
  check_defined(b, "where");
  check_same_dtype(a, b, "where");
  const Shape shape =
      broadcast_shapes(condition.shape(), broadcast_shapes(a.shape(), b.shape(), "where"), "where");
  return record(
      "where", chosen("where", condition, a, b, shape), {a, b},
      [c = Saved(condition), shape, shape_a = a.shape(), shape_b = b.shape()](const Tensor& dy) {
        const Tensor zero = Tensor::scalar(0.0, dy.dtype());
        return std::vector{sum_to(chosen("where", c.get(), dy, zero, shape), shape_a),
                           sum_to(chosen("where", c.get(), zero, dy, shape), shape_b)};
      });
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  check_defined(x, "masked_fill");
  check_condition(mask, "masked_fill", "mask");
  check(broadcast_shapes(x.shape(), mask.shape(), "masked_fill") == x.shape(), "masked_fill",
        "mask {} does not broadcast to {}", mask.shape(), x.shape());
  const Tensor fill = Tensor::scalar(value, x.dtype());
  return record("masked_fill", chosen("masked_fill", mask, fill, x, x.shape()), {x},
                [mask = Saved(mask), shape = x.shape()](const Tensor& dy) {
                  const Tensor zero = Tensor::scalar(0.0, dy.dtype());
                  return std::vector{chosen("masked_fill", mask.get(), zero, dy, shape)};
                });
}

Tensor gather(const Tensor& x, int axis, const Tensor& index) {
  check_defined(x, "gather");
  check_defined(index, "gather", "index");
  const int a = x.shape().axis(axis, "gather");
  check(index.rank() == x.rank(), "gather", "index {} must have as many axes as input {}",
        index.shape(), x.shape());
  for (int i = 0; i < x.rank(); ++i) {
    check(i == a || index.shape()[i] <= x.shape()[i], "gather", "index {} is larger than input {}",
          index.shape(), x.shape());
  }
  const Tensor ids = checked_indices(index, x.shape()[a], "gather");
  const Tensor from = x.contiguous();
  Tensor y = Tensor::empty(index.shape(), x.dtype());
  dispatch_dtype(x.dtype(), "gather", [&](auto tag) {
    using T = decltype(tag);
    const GatherPlaces place(x.shape(), index.shape(), a, ids.data<int64_t>());
    parallel_ranges(y.numel(), 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        y.data<T>()[i] = from.data<T>()[place(i)];
      }
    });
  });
  return record("gather", y, {x}, [a, ids, shape = x.shape()](const Tensor& gradient) {
    // Repeated indices add up one after the other, in f32 where the type is shorter.
    const DType type = compute_type(gradient.dtype());
    const Tensor dy = gradient.to(type).contiguous();
    Tensor dx = Tensor::zeros(shape, type);
    const GatherPlaces place(shape, ids.shape(), a, ids.data<int64_t>());
    const auto add_up = [&](auto* to, const auto* values) {
      for (int64_t i = 0; i < dy.numel(); ++i) {
        to[place(i)] += values[i];
      }
    };
    if (type == DType::f64) {
      add_up(dx.data<double>(), dy.data<double>());
    } else {
      add_up(dx.data<float>(), dy.data<float>());
    }
    return std::vector{dx.to(gradient.dtype())};
  });
}

}  // namespace heed
