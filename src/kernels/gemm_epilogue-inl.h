// What products share: the job, and a finished tile's way into C. Per target: include inside
// foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_GEMM_EPILOGUE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_GEMM_EPILOGUE_INL_H_
#undef HEED_KERNELS_GEMM_EPILOGUE_INL_H_
#else
#define HEED_KERNELS_GEMM_EPILOGUE_INL_H_
#endif
// clang-format on

#include "kernels/gemm.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// Everything a tile needs to know. T is the compute type.
template <class T>
struct Job : GemmProblem {
  explicit Job(const GemmProblem& problem) : GemmProblem(problem) {}

  bool direct() const { return c_type == kElementOf<T>; }
};

/// + bias and residual, where there are such.
template <class T, class C>
HWY_INLINE void add_to_row(const T* sums, const C* bias, const C* residual, size_t n, C* c) {
  if (bias != nullptr && residual != nullptr) {
    map(
        c, n,
        [](auto d, auto x, auto y, auto z)
            HWY_ATTR { return hn::Add(as_stored<C>(d, hn::Add(x, y)), z); },
        sums, bias, residual);
  } else if (bias != nullptr) {
    map(
        c, n, [](auto, auto x, auto y) HWY_ATTR { return hn::Add(x, y); }, sums, bias);
  } else if (residual != nullptr) {
    map(
        c, n, [](auto d, auto x, auto z) HWY_ATTR { return hn::Add(as_stored<C>(d, x), z); }, sums,
        residual);
  } else if (static_cast<const void*>(sums) != static_cast<const void*>(c)) {
    map(
        c, n, [](auto, auto x) HWY_ATTR { return x; }, sums);
  }
}

/// Bias, activation and residual on a finished tile; converts where C is not of the compute type.
template <class T, class C>
void finish_tile(const Job<T>& job, int64_t row, int64_t column, int64_t rows, int64_t width,
                 const T* sums, int64_t sums_stride) {
  const auto n = static_cast<size_t>(width);
  const Epilogue& e = job.epilogue;
  const auto* bias = e.bias != nullptr ? static_cast<const C*>(e.bias) + column : nullptr;
  const auto residual = [&](int64_t r) {
    return e.residual != nullptr
               ? static_cast<const C*>(e.residual) + (row + r) * e.residual_stride + column
               : nullptr;
  };
  C* c = static_cast<C*>(job.c) + row * job.c_stride + column;
  if (e.activation == Unary::identity && e.before == nullptr) {
    for (int64_t r = 0; r < rows; ++r) {
      add_to_row(sums + r * sums_stride, bias, residual(r), n, c + r * job.c_stride);
    }
    return;
  }
  // What goes into the activation is put where it stays.
  C* z = e.before != nullptr ? static_cast<C*>(e.before) + row * job.n + column : c;
  const int64_t z_stride = e.before != nullptr ? job.n : job.c_stride;
  for (int64_t r = 0; r < rows; ++r) {
    add_to_row<T, C>(sums + r * sums_stride, bias, nullptr, n, z + r * z_stride);
  }
  unary_tile(e.activation, c, job.c_stride, z, z_stride, rows, width);
  for (int64_t r = 0; r < rows && e.residual != nullptr; ++r) {
    add_to_row<C, C>(c + r * job.c_stride, nullptr, residual(r), n, c + r * job.c_stride);
  }
}

template <class T>
void finish(const Job<T>& job, int64_t row, int64_t column, int64_t rows, int64_t width,
            const T* sums, int64_t stride) {
  const Epilogue& e = job.epilogue;
  if (job.direct()) {
    if (e.bias != nullptr || e.before != nullptr || e.activation != Unary::identity ||
        e.residual != nullptr) {
      finish_tile<T, T>(job, row, column, rows, width, sums, stride);
    }
  } else if constexpr (std::is_same_v<T, float>) {
    if (job.c_type == Element::bf16) {
      finish_tile<T, BFloat16>(job, row, column, rows, width, sums, stride);
    } else {
      finish_tile<T, Half>(job, row, column, rows, width, sums, stride);
    }
  }
}

/// Where a tile's sums go: C itself, or a buffer where C is of a narrower type.
template <class T>
T* sums_of(const Job<T>& job, int64_t row, int64_t column, T* buffer) {
  return job.direct() ? static_cast<T*>(job.c) + row * job.c_stride + column : buffer;
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_GEMM_EPILOGUE_INL_H_
