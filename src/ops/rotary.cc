#include "base/check.h"
#include "base/parallel.h"
#include "heed/ops.h"
#include "tensor/dispatch.h"

namespace heed {
namespace {

constexpr int64_t kGrain = 64;  // rows per tile

template <class T>
void rotate_row(const T* in, T* out, const float* cos, const float* sin, float sign, int64_t half,
                bool interleaved) {
  using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const int64_t step = interleaved ? 2 : 1;
  const int64_t other = interleaved ? 1 : half;
  for (int64_t i = 0; i < half; ++i) {
    const C a = static_cast<C>(load_double(in[i * step]));
    const C b = static_cast<C>(load_double(in[i * step + other]));
    const C c = cos[i];
    const C s = sign * sin[i];
    out[i * step] = from_double<T>(a * c - b * s);
    out[i * step + other] = from_double<T>(b * c + a * s);
  }
}

/// sign 1 turns forward, -1 back: the gradient of a rotation is the opposite one.
Tensor rotate(const Tensor& x_in, const Tensor& position, const Tensor& cos, const Tensor& sin,
              bool interleaved, float sign) {
  const Tensor x = x_in.contiguous();
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  const int64_t heads = x.size(1);
  const int64_t width = x.size(2);
  const int64_t* at = position.data<int64_t>();
  dispatch_float(x.dtype(), "rotary", [&](auto tag) {
    using T = decltype(tag);
    parallel_ranges(x.size(0), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float* c = cos.data<float>() + at[row] * (width / 2);
        const float* s = sin.data<float>() + at[row] * (width / 2);
        for (int64_t head = 0; head < heads; ++head) {
          const int64_t offset = (row * heads + head) * width;
          rotate_row(x.data<T>() + offset, y.data<T>() + offset, c, s, sign, width / 2,
                     interleaved);
        }
      }
    });
  });
  return y;
}

}  // namespace

Tensor rotary(const Tensor& x, const Tensor& position_in, const Tensor& cos, const Tensor& sin,
              bool interleaved) {
  check(x.rank() == 3 && x.size(2) % 2 == 0, "rotary", "takes [rows, heads, an even width], not {}",
        x.shape());
  check(position_in.rank() == 1 && position_in.size(0) == x.size(0) &&
            position_in.dtype() == DType::i64,
        "rotary", "positions {} ({}) do not fit {}", position_in.shape(),
        name_of(position_in.dtype()), x.shape());
  check(cos.rank() == 2 && cos.shape() == sin.shape() && cos.size(1) == x.size(2) / 2 &&
            cos.is_contiguous() && sin.is_contiguous(),
        "rotary", "tables {} and {} do not fit {}", cos.shape(), sin.shape(), x.shape());
  const Tensor position = position_in.contiguous();
  for (int64_t i = 0; i < position.numel(); ++i) {
    const int64_t p = position.data<int64_t>()[i];
    check(p >= 0 && p < cos.size(0), "rotary", "position {} is outside the table of {}", p,
          cos.size(0));
  }
  Tensor y = rotate(x, position, cos, sin, interleaved, 1.0f);
  return record("rotary", y, {x}, [position, cos, sin, interleaved](const Tensor& dy) {
    return std::vector<Tensor>{rotate(dy, position, cos, sin, interleaved, -1.0f)};
  });
}

}  // namespace heed
