#pragma once

#ifdef __aarch64__
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstdint>

#include "alternate.h"
#include "base/parallel.h"
#include "heed/runtime.h"
#include "heed/tensor.h"

// What the machine can do at most, measured on all threads: FMA operations and reading beyond L3.

namespace heed::bench {

constexpr int64_t kSpinRounds = 4'000'000;

#ifdef __aarch64__
constexpr int kSums = 16;  // enough to hide the latency of an FMA: 4 cycles on 4 pipes
constexpr int kSpinOperations = 8;
#define HEED_AVX2

inline float spin() {
  float32x4_t sum[kSums];
  std::fill_n(sum, kSums, vdupq_n_f32(1.0f));
  const float32x4_t a = vdupq_n_f32(0.999f);
  for (int64_t i = 0; i < kSpinRounds; ++i) {
#pragma GCC unroll 16
    for (int n = 0; n < kSums; ++n) {
      sum[n] = vfmaq_f32(a, sum[n], a);
    }
  }
  for (int n = 1; n < kSums; ++n) {
    sum[0] = vaddq_f32(sum[0], sum[n]);
  }
  return vgetq_lane_f32(sum[0], 0);
}
#else
constexpr int kSums = 12;  // enough to hide the latency of an FMA
inline const bool kWide = __builtin_cpu_supports("avx512f");
inline const int kSpinOperations = kWide ? 32 : 16;
#define HEED_AVX2 __attribute__((target("avx2")))

__attribute__((target("avx512f"))) inline float spin_avx512() {
  __m512 sum[kSums];
  std::fill_n(sum, kSums, _mm512_set1_ps(1.0f));
  const __m512 a = _mm512_set1_ps(0.999f);
  for (int64_t i = 0; i < kSpinRounds; ++i) {
#pragma GCC unroll 12
    for (int n = 0; n < kSums; ++n) {
      sum[n] = _mm512_fmadd_ps(sum[n], a, a);
    }
  }
  for (int n = 1; n < kSums; ++n) {
    sum[0] = _mm512_add_ps(sum[0], sum[n]);
  }
  return _mm512_cvtss_f32(sum[0]);
}

__attribute__((target("avx2,fma"))) inline float spin_avx2() {
  __m256 sum[kSums];
  std::fill_n(sum, kSums, _mm256_set1_ps(1.0f));
  const __m256 a = _mm256_set1_ps(0.999f);
  for (int64_t i = 0; i < kSpinRounds; ++i) {
#pragma GCC unroll 12
    for (int n = 0; n < kSums; ++n) {
      sum[n] = _mm256_fmadd_ps(sum[n], a, a);
    }
  }
  for (int n = 1; n < kSums; ++n) {
    sum[0] = _mm256_add_ps(sum[0], sum[n]);
  }
  return _mm256_cvtss_f32(sum[0]);
}

inline float spin() { return kWide ? spin_avx512() : spin_avx2(); }
#endif

/// Runs the spin loop on every thread and returns the operations it stands for.
inline double spin_all() {
  heed::parallel_for(heed::thread_count(), [&](int64_t) {
    volatile float keep = spin();
    static_cast<void>(keep);
  });
  return static_cast<double>(heed::thread_count()) * kSpinRounds * kSums * kSpinOperations;
}

/// Sums 64-bit words: 8 independent sums, so that only the memory holds it back.
HEED_AVX2 inline int64_t sum_words(const char* data, int64_t bytes) {
  using Words = uint64_t __attribute__((vector_size(32), aligned(8), may_alias));
  Words sum[8] = {};
  for (int64_t i = 0; i + 256 <= bytes; i += 256) {
#pragma GCC unroll 8
    for (int n = 0; n < 8; ++n) {
      sum[n] += *reinterpret_cast<const Words*>(data + i + 32 * n);
    }
  }
  for (int n = 1; n < 8; ++n) {
    sum[0] += sum[n];
  }
  return static_cast<int64_t>(sum[0][0] + sum[0][2]);
}
#undef HEED_AVX2

/// Reads all of a tensor on every thread and returns the bytes; it should lie far beyond L3.
inline double read_all(const Tensor& far) {
  constexpr int64_t kTile = int64_t{1} << 20;
  const auto* data = static_cast<const char*>(far.raw());
  const int64_t tiles = far.bytes() / kTile;
  parallel_for(tiles, [&](int64_t tile) {
    volatile int64_t keep = sum_words(data + tile * kTile, kTile);
    static_cast<void>(keep);
  });
  return static_cast<double>(tiles * kTile);
}

}  // namespace heed::bench
