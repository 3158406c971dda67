#include "kernels/elementwise.h"

#include <cmath>

#include "ops/common.h"
#include "tensor/walk.h"

namespace heed {
namespace {

using kernels::Binary;

template <class T>
T apply(Binary op, T a, T b) {
  return op == Binary::add ? a + b : op == Binary::sub ? a - b : a * b;
}

/// a op b without history; whole numbers are computed element by element.
Tensor combine(const char* name, Binary op, const Tensor& a, const Tensor& b) {
  check_defined(a, name);
  check_defined(b, name);
  check_same_dtype(a, b, name);
  const DType type = a.dtype();
  check(is_floating(type) || ((type == DType::i64 || type == DType::i32) && op != Binary::div),
        name, "does not take {} tensors", name_of(type));
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), name);
  Tensor out = Tensor::empty(shape, type);
  const Shape strides_a = broadcast_strides(a.shape(), a.strides(), shape);
  const Shape strides_b = broadcast_strides(b.shape(), b.strides(), shape);
  dispatch_dtype(type, name, [&](auto tag) {
    using T = decltype(tag);
    T* to = out.data<T>();
    const T* from_a = a.data<T>();
    const T* from_b = b.data<T>();
    walk_rows<3>(shape, {&out.strides(), &strides_a, &strides_b},
                 [&](std::array<int64_t, 3> at, std::array<int64_t, 3> step, int64_t count) {
                   if constexpr (std::is_integral_v<T>) {
                     for (int64_t i = 0; i < count; ++i) {
                       to[at[0] + i * step[0]] = static_cast<T>(
                           apply(op, from_a[at[1] + i * step[1]], from_b[at[2] + i * step[2]]));
                     }
                   } else {
                     kernels::binary_row(op, to + at[0], from_a + at[1], step[1], from_b + at[2],
                                         step[2], count);
                   }
                 });
  });
  return out;
}

bool is_whole(double value) { return std::nearbyint(value) == value; }

/// x · scale + shift of integers, for whole numbers.
Tensor scaled_integers(const char* name, const Tensor& x, double scale, double shift) {
  check(is_whole(scale) && is_whole(shift), name,
        "{} of {} meets a fraction; cast() the tensor to a floating type first", x.shape(),
        name_of(x.dtype()));
  const Tensor from = x.to(DType::i64).contiguous();
  const Tensor out = Tensor::empty(x.shape(), DType::i64);
  for (int64_t i = 0; i < x.numel(); ++i) {
    out.data<int64_t>()[i] =
        from.data<int64_t>()[i] * static_cast<int64_t>(scale) + static_cast<int64_t>(shift);
  }
  return out.to(x.dtype());
}

Tensor scaled(const char* name, const Tensor& x, double scale, double shift) {
  check_defined(x, name);
  if (x.dtype() == DType::i64 || x.dtype() == DType::i32) {
    return scaled_integers(name, x, scale, shift);
  }
  check_floating(x, name);
  const Tensor from = x.contiguous();
  Tensor out = Tensor::empty(x.shape(), x.dtype());
  dispatch_float(x.dtype(), name, [&](auto tag) {
    using T = decltype(tag);
    kernels::scale_shift(out.data<T>(), from.data<T>(), scale, shift, x.numel());
  });
  return out;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  const Tensor y = combine("add", Binary::add, a, b);
  return record("add", y, {a, b}, [shape_a = a.shape(), shape_b = b.shape()](const Tensor& dy) {
    return std::vector{sum_to(dy, shape_a), sum_to(dy, shape_b)};
  });
}

Tensor sub(const Tensor& a, const Tensor& b) {
  const Tensor y = combine("sub", Binary::sub, a, b);
  return record(
      "sub", y, {a, b},
      [shape_a = a.shape(), shape_b = b.shape(), b_wanted = b.requires_grad()](const Tensor& dy) {
        std::vector<Tensor> grads(2);
        grads[0] = sum_to(dy, shape_a);
        if (b_wanted) {
          grads[1] = scaled("sub", sum_to(dy, shape_b), -1.0, 0.0);
        }
        return grads;
      });
}

Tensor mul(const Tensor& a, const Tensor& b) {
  const Tensor y = combine("mul", Binary::mul, a, b);
  return record("mul", y, {a, b},
                [a = Saved(a), b = Saved(b), a_wanted = a.requires_grad(),
                 b_wanted = b.requires_grad()](const Tensor& dy) {
                  std::vector<Tensor> grads(2);
                  if (a_wanted) {
                    grads[0] = sum_to(combine("mul", Binary::mul, dy, b.get()), a.get().shape());
                  }
                  if (b_wanted) {
                    grads[1] = sum_to(combine("mul", Binary::mul, dy, a.get()), b.get().shape());
                  }
                  return grads;
                });
}

Tensor div(const Tensor& a, const Tensor& b) {
  const Tensor y = combine("div", Binary::div, a, b);
  return record("div", y, {a, b},
                [y = Saved(y), b = Saved(b), shape_a = a.shape(), a_wanted = a.requires_grad(),
                 b_wanted = b.requires_grad()](const Tensor& dy) {
                  std::vector<Tensor> grads(2);
                  const Tensor share = combine("div", Binary::div, dy, b.get());  // dy / b
                  if (a_wanted) {
                    grads[0] = sum_to(share, shape_a);
                  }
                  if (b_wanted) {
                    const Tensor db = combine("div", Binary::mul, share, y.get());
                    grads[1] = scaled("div", sum_to(db, b.get().shape()), -1.0, 0.0);
                  }
                  return grads;
                });
}

Tensor add(const Tensor& a, double b) {
  return record("add", scaled("add", a, 1.0, b), {a},
                [](const Tensor& dy) { return std::vector{dy}; });
}

Tensor neg(const Tensor& x) {
  return record("neg", scaled("neg", x, -1.0, 0.0), {x},
                [](const Tensor& dy) { return std::vector{scaled("neg", dy, -1.0, 0.0)}; });
}

Tensor mul(const Tensor& a, double b) {
  return record("mul", scaled("mul", a, b, 0.0), {a},
                [b](const Tensor& dy) { return std::vector{scaled("mul", dy, b, 0.0)}; });
}

}  // namespace heed
