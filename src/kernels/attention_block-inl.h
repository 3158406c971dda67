// Register-blocked products of small matrices in cache, and exp2. Per-target code: include inside
// foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_ATTENTION_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_BLOCK_INL_H_
#undef HEED_KERNELS_ATTENTION_BLOCK_INL_H_
#else
#define HEED_KERNELS_ATTENTION_BLOCK_INL_H_
#endif
// clang-format on

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <utility>

#include "kernels/bf16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// Calls fn(constant<0>), fn(constant<1>), …: arrays indexed so stay in registers.
template <size_t N, class Fn>
HWY_INLINE void unroll(Fn&& fn) {
  [&]<size_t... I>(std::index_sequence<I...>) HWY_ATTR __attribute__((always_inline)) {
    (fn(std::integral_constant<size_t, I>{}), ...);
  }
  (std::make_index_sequence<N>{});
}
#define HEED_INLINE_LAMBDA HWY_ATTR __attribute__((always_inline))

/// The larger of a and b; b where either is NaN. That is what x86's instruction does; NEON's would
/// return the number, and the NaN would be lost.
template <class V>
HWY_INLINE V max_or_second(V a, V b) {
#if HWY_ARCH_X86
  return hn::Max(a, b);
#else
  return hn::IfThenElse(hn::Gt(a, b), a, b);
#endif
}

/// 2^x for x <= 0, within 1 ulp; 0 below the normal numbers, exactly 1 at 0, NaN for NaN.
template <class D>
HWY_INLINE hn::Vec<D> exp2_nonpositive(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  constexpr bool kSingle = sizeof(T) == 4;
  // Adding 1.5·2^mantissa rounds x to an integer n, which the low bits then hold.
  const auto magic = hn::Set(d, static_cast<T>(kSingle ? 12582912.0 : 6755399441055744.0));
  const auto lowest = hn::Set(d, static_cast<T>(kSingle ? -126.0 : -1022.0));
  const auto tiny = hn::Lt(x, lowest);
  const auto clamped = max_or_second(lowest, x);  // NaN stays NaN
  const auto rounded = hn::Add(clamped, magic);
  const auto f = hn::Sub(clamped, hn::Sub(rounded, magic));
  hn::Vec<D> y;
  if constexpr (kSingle) {  // minimax on [-1/2, 1/2] with y(0) = 1: relative error 2e-9
    y = hn::Set(d, static_cast<T>(0.00015353360504377633));
    y = hn::MulAdd(y, f, hn::Set(d, static_cast<T>(0.0013398875016719103)));
    y = hn::MulAdd(y, f, hn::Set(d, static_cast<T>(0.00961843691766262)));
    y = hn::MulAdd(y, f, hn::Set(d, static_cast<T>(0.055503323674201965)));
    y = hn::MulAdd(y, f, hn::Set(d, static_cast<T>(0.24022647738456726)));
    y = hn::MulAdd(y, f, hn::Set(d, static_cast<T>(0.6931471824645996)));
    y = hn::MulAdd(y, f, hn::Set(d, static_cast<T>(1)));
  } else {  // Taylor's series of e^(f ln 2), 13 terms: relative error 1e-17
    const auto z = hn::Mul(f, hn::Set(d, static_cast<T>(0.693147180559945309417)));
    y = hn::Set(d, static_cast<T>(1.0 / 6227020800.0));
    for (const double factorial : {479001600.0, 39916800.0, 3628800.0, 362880.0, 40320.0, 5040.0,
                                   720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0}) {
      y = hn::MulAdd(y, z, hn::Set(d, static_cast<T>(1.0 / factorial)));
    }
  }
  const hn::RebindToSigned<D> di;
  const auto exponent = hn::ShiftLeft < kSingle ? 23 : 52 > (hn::BitCast(di, rounded));
  const auto scaled = hn::BitCast(d, hn::Add(hn::BitCast(di, y), exponent));
  return hn::IfThenZeroElse(tiny, scaled);
}

/// How a block of the product starts.
enum class Start {
  zero,     ///< c = a·b
  add,      ///< c += a·b
  rescale,  ///< c = c * factor[column] + a·b
  scale     ///< c = a·b * factor[0]
};

#if HWY_TARGET <= HWY_AVX3
inline constexpr size_t kVectors = 4;  // 6 × 4 sums, 4 vectors of b, 1 of a: of 32 registers
#else
inline constexpr size_t kVectors = 2;  // 6 × 2 sums, 2 vectors of b, 1 of a: of 16 registers
#endif
inline constexpr size_t kRows = 6;

/// c [rows, columns] = start + Σ_k a(m, k) · b[k][n] over `depth` steps, rows of b and c `ldb` and
/// `ldc` apart. a(m, k) is a[m·lda + k], or a[k·lda + m] where it is transposed. The terms are
/// added in the order of k, one by one. P: T, or Bf16Pair, and then a step of k is two terms.
/// Functions take it by value: what they store through c cannot change it, so that its fields stay
/// in registers.
template <class T, class P = T>
struct Product {
  const P* a = nullptr;
  size_t lda = 0;
  const P* b = nullptr;
  size_t ldb = 0;
  T* c = nullptr;
  size_t ldc = 0;
  size_t rows = 0;
  size_t columns = 0;
  size_t depth = 0;
  const T* factor = nullptr;
};

/// The first Rows rows and Vectors·lanes columns of a product.
template <size_t Rows, size_t Vectors, Start S, bool ATransposed, class D, class P, class T>
HWY_INLINE void product_block(D d, Product<T, P> of) {
  using Adder = Step<T, P>;
  const P* HWY_RESTRICT a = of.a;
  const P* HWY_RESTRICT b = of.b;
  T* HWY_RESTRICT c = of.c;
  const T* HWY_RESTRICT factor = of.factor;
  const size_t lda = of.lda;
  const size_t ldb = of.ldb;
  const size_t ldc = of.ldc;
  const size_t depth = of.depth;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<D> sum[Rows * Vectors];
  unroll<Rows * Vectors>([&](auto i) HEED_INLINE_LAMBDA {
    constexpr size_t m = decltype(i)::value / Vectors;
    constexpr size_t n = decltype(i)::value % Vectors;
    if constexpr (S == Start::zero || S == Start::scale) {
      sum[i] = hn::Zero(d);
    } else {
      sum[i] = hn::LoadU(d, c + m * ldc + n * lanes);
      if constexpr (S == Start::rescale) {
        sum[i] = hn::Mul(sum[i], hn::LoadU(d, factor + n * lanes));
      }
    }
  });
  const auto step = [&]() HEED_INLINE_LAMBDA {
    hn::Vec<typename Adder::D> row[Vectors];
    unroll<Vectors>([&](auto n) HEED_INLINE_LAMBDA { row[n] = Adder::row(b + n * lanes); });
    unroll<Rows>([&](auto m) HEED_INLINE_LAMBDA {
      const auto value = Adder::factor(ATransposed ? a[m] : a[m * lda]);
      unroll<Vectors>([&](auto n) HEED_INLINE_LAMBDA {
        constexpr size_t i = decltype(m)::value * Vectors + decltype(n)::value;
        sum[i] = Adder::add(sum[i], value, row[n]);
      });
    });
    a += ATransposed ? lda : 1;
    b += ldb;
  };
  size_t k = 0;
  if constexpr (!ATransposed) {
    // Lines of all rows of a end at once: those of the next block are asked for meanwhile.
    constexpr size_t kLine = 64 / sizeof(P);
    while (k + kLine <= depth) {
      unroll<Rows>([&](auto m) HEED_INLINE_LAMBDA {
        hwy::Prefetch(a + (m + Rows) * lda);
        if constexpr (S != Start::zero && S != Start::scale) {
          if (k < Vectors * lanes) {
            hwy::Prefetch(c + (m + Rows) * ldc + k);
          }
        }
      });
      for (const size_t end = k + kLine; k < end; ++k) {
        step();
      }
    }
  }
  for (; k < depth; ++k) {
    step();
  }
  unroll<Rows * Vectors>([&](auto i) HEED_INLINE_LAMBDA {
    constexpr size_t m = decltype(i)::value / Vectors;
    constexpr size_t n = decltype(i)::value % Vectors;
    if constexpr (S == Start::scale) {
      sum[i] = hn::Mul(sum[i], hn::Set(d, factor[0]));
    }
    hn::StoreU(sum[i], d, c + m * ldc + n * lanes);
  });
}

/// The same product from column n on.
template <Start S, class P, class T>
HWY_INLINE Product<T, P> from_column(Product<T, P> of, size_t n) {
  of.b += n;
  of.c += n;
  of.factor = S == Start::rescale ? of.factor + n : of.factor;
  return of;
}

/// All rows of the first Vectors·lanes columns.
template <size_t Vectors, Start S, bool ATransposed, class D, class P, class T>
HWY_INLINE void product_panel(D d, Product<T, P> of) {
  const size_t step = ATransposed ? 1 : of.lda;
  size_t left = of.rows;
  for (; left >= kRows; left -= kRows) {
    product_block<kRows, Vectors, S, ATransposed>(d, of);
    of.a += kRows * step;
    of.c += kRows * of.ldc;
  }
  switch (left) {
    case 5:
      return product_block<5, Vectors, S, ATransposed>(d, of);
    case 4:
      return product_block<4, Vectors, S, ATransposed>(d, of);
    case 3:
      return product_block<3, Vectors, S, ATransposed>(d, of);
    case 2:
      return product_block<2, Vectors, S, ATransposed>(d, of);
    case 1:
      return product_block<1, Vectors, S, ATransposed>(d, of);
    default:
      return;
  }
}

/// The whole product; its columns are a multiple of the lanes.
template <Start S, bool ATransposed, class P, class T>
HWY_NOINLINE void product(Product<T, P> of) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  size_t n = 0;
  for (; n + kVectors * lanes <= of.columns; n += kVectors * lanes) {
    product_panel<kVectors, S, ATransposed>(d, from_column<S>(of, n));
  }
  for (; n < of.columns; n += lanes) {
    product_panel<1, S, ATransposed>(d, from_column<S>(of, n));
  }
}

/// The product with less work where a triangle of b or c is not wanted: limit(end) says how much of
/// the sum (or where Rows, how many rows) the columns up to `end` want.
template <Start S, bool ATransposed, bool Rows, class P, class T, class Limit>
HWY_INLINE void product_of_triangle(Product<T, P> of, Limit&& limit) {
  constexpr size_t kPanel = kVectors == 4 ? 1 : kVectors;  // about 16 columns
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto panel = [&](auto vectors, size_t n) HWY_ATTR {
    const size_t most = limit(n + decltype(vectors)::value * lanes);
    Product<T, P> part = from_column<S>(of, n);
    if constexpr (Rows) {
      part.rows = HWY_MIN(part.rows, most);
    } else {
      part.depth = HWY_MIN(part.depth, most);
    }
    product_panel<decltype(vectors)::value, S, ATransposed>(d, part);
  };
  size_t n = 0;
  for (; n + kPanel * lanes <= of.columns; n += kPanel * lanes) {
    panel(std::integral_constant<size_t, kPanel>{}, n);
  }
  for (; n < of.columns; n += lanes) {
    panel(std::integral_constant<size_t, 1>{}, n);
  }
}

/// out[column][row] = in[row][column] * factor for rows × columns; reads the stored type.
template <class T, class C>
HWY_INLINE void transpose_scaled(const T* in, size_t in_stride, size_t rows, size_t columns,
                                 C factor, C* out, size_t out_stride) {
  size_t r = 0;
  if constexpr (sizeof(C) == 4) {  // blocks of 4 × 4
    const hn::FixedTag<C, 4> d;
    const auto f = hn::Set(d, factor);
    for (; r + 4 <= rows; r += 4) {
      size_t c = 0;
      for (; c + 4 <= columns; c += 4) {
        const T* p = in + r * in_stride + c;
        const auto r0 = hn::Mul(load(d, p), f);
        const auto r1 = hn::Mul(load(d, p + in_stride), f);
        const auto r2 = hn::Mul(load(d, p + 2 * in_stride), f);
        const auto r3 = hn::Mul(load(d, p + 3 * in_stride), f);
        const auto low01 = hn::InterleaveLower(d, r0, r1);
        const auto low23 = hn::InterleaveLower(d, r2, r3);
        const auto high01 = hn::InterleaveUpper(d, r0, r1);
        const auto high23 = hn::InterleaveUpper(d, r2, r3);
        C* q = out + c * out_stride + r;
        hn::StoreU(hn::ConcatLowerLower(d, low23, low01), d, q);
        hn::StoreU(hn::ConcatUpperUpper(d, low23, low01), d, q + out_stride);
        hn::StoreU(hn::ConcatLowerLower(d, high23, high01), d, q + 2 * out_stride);
        hn::StoreU(hn::ConcatUpperUpper(d, high23, high01), d, q + 3 * out_stride);
      }
      for (; c < columns; ++c) {
        for (size_t i = 0; i < 4; ++i) {
          out[c * out_stride + r + i] = widen(in[(r + i) * in_stride + c]) * factor;
        }
      }
    }
  }
  for (; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      out[c * out_stride + r] = widen(in[r * in_stride + c]) * factor;
    }
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_ATTENTION_BLOCK_INL_H_
