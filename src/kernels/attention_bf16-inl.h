// Operands of attention's products as pairs of bf16. Per-target code: include inside foreach_target
// files.
// clang-format off
#if defined(HEED_KERNELS_ATTENTION_BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_BF16_INL_H_
#undef HEED_KERNELS_ATTENTION_BF16_INL_H_
#else
#define HEED_KERNELS_ATTENTION_BF16_INL_H_
#endif
// clang-format on

#include "kernels/attention_tile-inl.h"
#include "kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

#if HEED_BF16_INSTRUCTIONS

inline int64_t pairs_in(int64_t count) { return (count + 1) / 2; }

/// Rows of a head as pairs along the columns: in place, or where these do not lie so, copied into
/// `buffer` [count, padded(pairs)].
inline const Bf16Pair* rows_as_pairs(const HeadsView<const BFloat16>& view, const HeadRows& rows,
                                     Bf16Pair* buffer, size_t* stride) {
  const auto [b, h, row, count, columns] = rows;
  if (columns % 2 == 0 && view.row % 2 == 0) {
    *stride = static_cast<size_t>(view.row / 2);
    return reinterpret_cast<const Bf16Pair*>(view.at(b, h, row));
  }
  *stride = padded(pairs_in(columns));
  for (int64_t i = 0; i < count; ++i) {
    const BFloat16* from = view.at(b, h, row + i);
    auto* to = reinterpret_cast<uint32_t*>(buffer + static_cast<size_t>(i) * *stride);
    for (int64_t c = 0; c < columns; c += 32) {
      hn::StoreU(load_pairs(from + c, std::min<int64_t>(32, columns - c)),
                 hn::ScalableTag<uint32_t>(), to + c / 2);
    }
  }
  return buffer;
}

/// out [pairs of columns][64] = rows × columns, transposed; zero from there to `width` (whole
/// vectors).
inline void transpose_pairs(const BFloat16* in, int64_t stride, int64_t rows, int64_t width,
                            int64_t columns, Bf16Pair* out) {
  constexpr int kSide = 16;
  const hn::ScalableTag<float> d;
  for (int64_t r = 0; r < width; r += kSide) {
    for (int64_t c = 0; c < columns; c += 2 * kSide) {
      const int64_t count = std::min<int64_t>(2 * kSide, columns - c);
      const auto line = [&](int i) HWY_ATTR {
        return r + i < rows ? hn::BitCast(d, load_pairs(in + (r + i) * stride + c, count))
                            : hn::Zero(d);
      };
      FloatVec value[kSide];
      transpose_lines(d, line, value);
      for (int64_t i = 0; i < pairs_in(count); ++i) {
        hn::StoreU(value[i], d, reinterpret_cast<float*>(out + (c / 2 + i) * kQueryTile + r));
      }
    }
  }
}

/// out [pairs of rows][line] = rows 2i and 2i + 1 in line i, zero past the last. line: at least
/// padded(columns).
template <class T>
void join_row_pairs(const T* in, size_t stride, int64_t rows, int64_t columns, Bf16Pair* out,
                    size_t line) {
  for (int64_t r = 0; r < rows; r += 2, out += line) {
    const T* first = in + static_cast<size_t>(r) * stride;
    const T* second = r + 1 < rows ? first + stride : nullptr;
    for (int64_t c = 0; c < columns; c += 16) {
      const auto pairs = join_pairs(second != nullptr ? second + c : nullptr, first + c,
                                    std::min<int64_t>(16, columns - c));
      hn::StoreU(pairs, hn::ScalableTag<uint32_t>(), reinterpret_cast<uint32_t*>(out + c));
    }
  }
}

#endif

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_ATTENTION_BF16_INL_H_
