// Keys and values as an attention kernel reads them: in place where they are of the compute type,
// else a tile at a time, converted. Per-target code: include inside foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_ATTENTION_STORED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_STORED_INL_H_
#undef HEED_KERNELS_ATTENTION_STORED_INL_H_
#else
#define HEED_KERNELS_ATTENTION_STORED_INL_H_
#endif
// clang-format on

#include "kernels/attention.h"
#include "kernels/quantized_blocks.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class S, class C>
HWY_INLINE void widen_row(const S* in, size_t n, C* out) {
  const hn::ScalableTag<C> d;
  size_t c = 0;
  for (; c + hn::Lanes(d) <= n; c += hn::Lanes(d)) {
    hn::StoreU(load(d, in + c), d, out + c);
  }
  for (; c < n; ++c) {
    out[c] = widen(in[c]);
  }
}
HWY_INLINE void widen_row(const BlockQ8* in, size_t n, float* out) {
  const hn::CappedTag<float, 16> d;
  const hn::Rebind<int32_t, decltype(d)> d32;
  const hn::Rebind<int8_t, decltype(d)> d8;
  for (size_t block = 0; block < n / kBlock; ++block) {
    const auto scale = hn::Set(d, to_float(in[block].scale));
    for (size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
      const auto whole = hn::PromoteTo(d32, hn::LoadU(d8, in[block].values + i));
      hn::StoreU(hn::Mul(hn::ConvertTo(d, whole), scale), d, out + block * kBlock + i);
    }
  }
}

/// Element `index` of memory whose type is only known at run time.
template <class S>
HWY_INLINE const S* stored_at(const void* data, int64_t index) {
  if constexpr (std::is_same_v<S, BlockQ8>) {
    return static_cast<const S*>(data) + index / kBlock;
  } else {
    return static_cast<const S*>(data) + index;
  }
}

template <class S, class T, class C>
HWY_INLINE const C* widen_rows(const HeadsView<const T>& view, int64_t index, int64_t count,
                               int64_t columns, C* buffer) {
  for (int64_t i = 0; i < count; ++i) {
    widen_row(stored_at<S>(view.data, index + i * view.row), static_cast<size_t>(columns),
              buffer + i * columns);
  }
  return buffer;
}

/// Rows [row, row + count) of a head.
struct HeadRows {
  int64_t b;
  int64_t h;
  int64_t row;
  int64_t count;
  int64_t columns;
};

/// Rows of p.k or p.v in the compute type: in place, or converted into `buffer`.
template <class T, class C>
HWY_INLINE const C* compute_rows(const AttentionProblem<T>& p, const HeadsView<const T>& view,
                                 const HeadRows& rows, C* buffer, size_t* stride) {
  const auto [b, h, row, count, columns] = rows;
  *stride = static_cast<size_t>(columns);
  const int64_t index = b * view.batch + h * view.head + row * view.row;
  if constexpr (std::is_same_v<T, float>) {
    switch (p.stored) {
      case Element::f16:
        return widen_rows<Half>(view, index, count, columns, buffer);
      case Element::bf16:
        return widen_rows<BFloat16>(view, index, count, columns, buffer);
      case Element::q8_0:
        return widen_rows<BlockQ8>(view, index, count, columns, buffer);
      default:
        break;
    }
  }
  if constexpr (std::is_same_v<T, C>) {
    *stride = static_cast<size_t>(view.row);
    return view.data + index;
  } else {
    return widen_rows<T>(view, index, count, columns, buffer);
  }
}

/// Bytes of `count` stored elements: whole blocks where they are quantised.
inline int64_t stored_bytes(Element type, int64_t count) {
  return type == Element::q8_0 ? count / kBlock * static_cast<int64_t>(sizeof(BlockQ8))
                               : count * element_size(type);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_ATTENTION_STORED_INL_H_
