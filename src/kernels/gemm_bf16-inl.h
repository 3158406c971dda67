// Panels of the product in bf16: pairs of adjacent k for AVX-512 BF16, and elsewhere the same
// numbers in f32. Per target: include inside foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_GEMM_BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_GEMM_BF16_INL_H_
#undef HEED_KERNELS_GEMM_BF16_INL_H_
#else
#define HEED_KERNELS_GEMM_BF16_INL_H_
#endif
// clang-format on

#include "kernels/gemm_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// bf16 operands as f32, for machines without the instruction. Operands of another type are rounded
/// to bf16 first, so that the product is the instruction's to the bit where nothing is subnormal.
struct RoundedToBf16 : Plain<float> {
  static void pack_a(const Job<float>& job, const PackedPart& part, float* panels, int64_t stride) {
    Plain<float>::pack_a(job, part, panels, stride);
    round(job.a, part.depth * kRows, (part.count + kRows - 1) / kRows, panels, stride);
  }
  static void pack_b(const Job<float>& job, const PackedPart& part, float* panels, int64_t stride) {
    constexpr int64_t kWidth = columns<float>();
    Plain<float>::pack_b(job, part, panels, stride);
    round(job.b, part.depth * kWidth, (part.count + kWidth - 1) / kWidth, panels, stride);
  }

 private:
  static void round(const Matrix& matrix, int64_t count, int64_t panels, float* to,
                    int64_t stride) {
    for (int64_t p = 0; p < panels && matrix.type != Element::bf16; ++p, to += stride) {
      for (int64_t i = 0; i < count; ++i) {
        to[i] = to_float(to_bfloat16(to[i]));
      }
    }
  }
};

#if HEED_BF16_INSTRUCTIONS

/// Panels for the instruction: a step holds k and k + 1 of a row or column, zero past the end. k is
/// in the upper half, whose product is added first: the order is that of every other product.
struct Bf16Pairs {
  using Sum = float;
  using Panel = Bf16Pair;
  static int64_t steps(int64_t k) { return (k + 1) / 2; }

  static void pack_a(const Job<float>& job, const PackedPart& part, Bf16Pair* panels,
                     int64_t stride) {
    const Matrix transposed{job.a.data, job.a.type, job.a.column_stride, job.a.row_stride};
    pack_any<kRows>(transposed, job.k, part, panels, stride);
  }
  static void pack_b(const Job<float>& job, const PackedPart& part, Bf16Pair* panels,
                     int64_t stride) {
    pack_any<columns<float>()>(job.b, job.k, part, panels, stride);
  }

 private:
  static constexpr int64_t kSide = 16;

  /// Columns of a matrix [all, columns] whose rows run along k.
  template <int64_t kWidth>
  static void pack_any(const Matrix& matrix, int64_t all, const PackedPart& part, Bf16Pair* panels,
                       int64_t stride) {
    const int64_t depth = part.depth;
    const int64_t width = part.count;
    with_data<float>(matrix, 2 * part.step, part.first, [&](const auto* from) {
      const int64_t left = all - 2 * part.step;  // of k
      auto* to = reinterpret_cast<uint32_t*>(panels);
      if (matrix.column_stride == 1) {
        join_rows<kWidth>(from, matrix.row_stride, left, depth, width, to, stride);
      } else if (matrix.row_stride == 1) {
        for (int64_t c = 0; c < width; c += kWidth, to += stride) {
          transpose_pairs<kWidth>(from + c * matrix.column_stride, matrix.column_stride, left,
                                  depth, std::min(kWidth, width - c), to);
        }
      } else {
        for (int64_t c = 0; c < width; c += kWidth, to += stride) {
          gather_pairs<kWidth>(from + c * matrix.column_stride, matrix, left, depth,
                               std::min(kWidth, width - c), to);
        }
      }
    });
  }

  /// Rows of k that lie along the columns, two at a time.
  template <int64_t kWidth, class T>
  static void join_rows(const T* from, int64_t row_stride, int64_t left, int64_t depth,
                        int64_t width, uint32_t* to, int64_t stride) {
    constexpr int64_t kAhead = 16;  // rows
    constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
    const hn::ScalableTag<uint32_t> d;
    for (int64_t s = 0; s < depth; ++s, from += 2 * row_stride) {
      const T* second = 2 * s + 1 < left ? from + row_stride : nullptr;
      for (int64_t c = 0; c < width; c += kLine) {
        fetch_later(from + kAhead * row_stride + c);
        fetch_later(from + (kAhead + 1) * row_stride + c);
      }
      uint32_t* line = to + s * kWidth;
      for (int64_t c = 0; c < width; c += kWidth, line += stride) {
        for (int64_t i = 0; i < kWidth; i += kSide) {
          const int64_t count = std::clamp(width - c - i, int64_t{0}, kSide);
          const int64_t room = std::min(kSide, kWidth - i);
          const auto pairs = join_pairs(from + c + i, second != nullptr ? second + c + i : nullptr,
                                        std::min(count, room));
          if (room == kSide || s + 1 < depth) {  // the next step writes over what is too much
            hn::StoreU(pairs, d, line + i);
          } else {
            hn::BlendedStore(pairs, hn::FirstN(d, static_cast<size_t>(room)), d, line + i);
          }
        }
      }
    }
  }

  /// Columns that lie along k: 16 of them, 16 steps at a time.
  template <int64_t kWidth, class T>
  static void transpose_pairs(const T* from, int64_t column_stride, int64_t left, int64_t depth,
                              int64_t width, uint32_t* to) {
    const hn::ScalableTag<float> df;
    const hn::ScalableTag<uint32_t> d;
    for (int64_t i = 0; i < kWidth; i += kSide) {
      const int64_t room = std::min(kSide, kWidth - i);
      const T* column[kSide];
      for (int64_t c = 0; c < kSide; ++c) {  // past the end the last column again
        column[c] = from + std::min({i + c, i + room - 1, width - 1}) * column_stride;
      }
      for (int64_t s = 0; s < depth; s += kSide) {
        const int64_t count = std::min<int64_t>(32, left - 2 * s);
        const auto line = [&](int c) HWY_ATTR {
          hwy::Prefetch(column[c] + 2 * s + kTransposePrefetch);
          return hn::BitCast(df, load_pairs(column[c] + 2 * s, count));
        };
        FloatVec transposed[kSide];
        transpose_lines(df, line, transposed);
        const int64_t here = std::min(kSide, depth - s);
        for (int64_t j = 0; j < here; ++j) {
          const PairVec pairs{_mm512_rol_epi32(hn::BitCast(d, transposed[j]).raw, 16)};
          uint32_t* to_line = to + (s + j) * kWidth + i;
          if (room == kSide || s + j + 1 < depth) {
            hn::StoreU(pairs, d, to_line);
          } else {
            hn::BlendedStore(pairs, hn::FirstN(d, static_cast<size_t>(room)), d, to_line);
          }
        }
      }
    }
  }

  template <int64_t kWidth, class T>
  static void gather_pairs(const T* from, const Matrix& matrix, int64_t left, int64_t depth,
                           int64_t width, uint32_t* to) {
    const auto bits = [&](int64_t k, int64_t c) -> uint32_t {
      return k < left && c < width
                 ? to_bfloat16(widen(from[k * matrix.row_stride + c * matrix.column_stride])).bits
                 : 0u;
    };
    for (int64_t s = 0; s < depth; ++s) {
      for (int64_t c = 0; c < kWidth; ++c) {
        to[s * kWidth + c] = bits(2 * s, c) << 16 | bits(2 * s + 1, c);
      }
    }
  }
};

#endif

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_GEMM_BF16_INL_H_
