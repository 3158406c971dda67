#include "kernels/fourier.h"

#include <complex>
#include <vector>

#include "base/check.h"
#include "base/parallel.h"
#include "heed/ops.h"
#include "heed/tensor.h"
#include "tensor/dispatch.h"

namespace heed {
namespace {

/// Re of the transform of each [T, E] matrix over both axes.
Tensor mix(const Tensor& x) {
  const int64_t length = x.size(1);
  const int64_t width = x.size(2);
  const Tensor in = x.contiguous();
  Tensor out = Tensor::empty(x.shape(), x.dtype());
  if (x.numel() == 0) {
    return out;
  }
  const kernels::Fourier along_width(width);
  const kernels::Fourier along_length(length);
  std::vector<std::complex<double>> work(static_cast<size_t>(length * width));
  constexpr int64_t kLines = 16;
  for (int64_t b = 0; b < x.size(0); ++b) {
    dispatch_float(x.dtype(), "fnet_mixing", [&](auto zero) {
      using T = decltype(zero);
      const T* from = in.data<T>() + b * length * width;
      T* to = out.data<T>() + b * length * width;
      parallel_ranges(length, kLines, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin * width; i < end * width; ++i) {
          work[static_cast<size_t>(i)] = load_double(from[i]);
        }
        for (int64_t row = begin; row < end; ++row) {
          along_width.transform(work.data() + row * width);
        }
      });
      parallel_ranges(width, kLines, [&](int64_t begin, int64_t end) {
        std::vector<std::complex<double>> line(static_cast<size_t>(length));
        for (int64_t c = begin; c < end; ++c) {
          for (int64_t t = 0; t < length; ++t) {
            line[static_cast<size_t>(t)] = work[static_cast<size_t>(t * width + c)];
          }
          along_length.transform(line.data());
          for (int64_t t = 0; t < length; ++t) {
            to[t * width + c] = from_double<T>(line[static_cast<size_t>(t)].real());
          }
        }
      });
    });
  }
  return out;
}

}  // namespace

Tensor fnet_mixing(const Tensor& x) {
  check(x.rank() == 3 && is_floating(x.dtype()), "fnet_mixing",
        "x {} must be a floating [batch, length, width]", x.shape());
  // The transform's matrices are symmetric, so the real part is its own transpose.
  return record("fnet_mixing", mix(x), {x},
                [](const Tensor& dy) { return std::vector<Tensor>{mix(dy)}; });
}

}  // namespace heed
