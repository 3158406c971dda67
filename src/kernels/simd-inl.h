// Per-target helpers for kernels: include inside foreach_target files, after highway.h.
// clang-format off
#if defined(HEED_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_SIMD_INL_H_
#undef HEED_KERNELS_SIMD_INL_H_
#else
#define HEED_KERNELS_SIMD_INL_H_
#endif
// clang-format on

#include <hwy/highway.h>

#include <cstring>
#include <type_traits>

#include "kernels/types.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Lanes of the type in which T is computed: f64 for f64, f32 for f32, f16 and bf16.
template <class T>
using Tag = hn::ScalableTag<Compute<T>>;

/// Loads a full vector of T as the compute type.
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const float* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const double* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const BFloat16* p) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<uint32_t, D> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const Half* p) {
#if HWY_TARGET <= HWY_AVX2
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
#else
  // Without F16C. Moved to f32's place, the exponent is 112 too small, subnormals included.
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<uint32_t, D> d32;
  const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p)));
  const auto size = hn::And(bits, hn::Set(d32, 0x7fffu));
  const auto sign = hn::ShiftLeft<16>(hn::Sub(bits, size));
  const auto value = hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(size)), hn::Set(d, 0x1.0p112f));
  const auto special = hn::IfThenElseZero(hn::Gt(size, hn::Set(d32, 0x7bffu)),
                                          hn::Set(d32, 0x7f800000u));  // infinity and NaN
  return hn::BitCast(d, hn::Or(hn::Or(hn::BitCast(d32, value), special), sign));
#endif
}

/// Stores the compute type as T, rounding to nearest even.
template <class D>
HWY_INLINE void store(hn::Vec<D> v, D d, float* p) {
  hn::StoreU(v, d, p);
}
template <class D>
HWY_INLINE void store(hn::Vec<D> v, D d, double* p) {
  hn::StoreU(v, d, p);
}
/// The bits of bf16 in the upper halves of f32's, the lower ones undefined.
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<uint32_t, D>> nearest_bf16(D /*d*/, hn::Vec<D> v) {
  const hn::Rebind<uint32_t, D> d32;
  const auto bits = hn::BitCast(d32, v);
  const auto even = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1u));
  const auto rounded = hn::Add(bits, hn::Add(even, hn::Set(d32, 0x7fffu)));
  return hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(v)), hn::Set(d32, 0x7fc00000u), rounded);
}
template <class D>
HWY_INLINE void store(hn::Vec<D> v, D d, BFloat16* p) {
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::ShiftRight<16>(nearest_bf16(d, v));
  hn::StoreU(hn::TruncateTo(d16, bits), d16, reinterpret_cast<uint16_t*>(p));
}
template <class D>
HWY_INLINE void store(hn::Vec<D> v, [[maybe_unused]] D d, Half* p) {
#if HWY_TARGET <= HWY_AVX2
  const hn::Rebind<hwy::float16_t, D> d16;
  hn::StoreU(hn::DemoteTo(d16, v), d16, reinterpret_cast<hwy::float16_t*>(p));
#else
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<uint32_t, D> d32;
  const auto bits = hn::BitCast(d32, v);
  const auto size = hn::And(bits, hn::Set(d32, 0x7fffffffu));
  const auto sign = hn::ShiftRight<16>(hn::Sub(bits, size));
  // Normal results: to nearest even at bit 13, then the exponent's new bias; a carry to infinity is
  // right. Subnormal ones: adding 1/2 leaves a whole number of 2^-24 in the low bits.
  const auto even = hn::And(hn::ShiftRight<13>(size), hn::Set(d32, 1u));
  const auto nearest = hn::Add(size, hn::Add(even, hn::Set(d32, 0xfffu)));
  const auto normal = hn::ShiftRight<13>(hn::Sub(nearest, hn::Set(d32, 112u << 23)));
  const auto half = hn::Set(d, 0.5f);
  const auto small =
      hn::Sub(hn::BitCast(d32, hn::Add(hn::BitCast(d, size), half)), hn::BitCast(d32, half));
  auto result = hn::IfThenElse(hn::Lt(size, hn::Set(d32, 0x38800000u)), small, normal);
  const auto infinity = hn::Set(d32, 0x7c00u);
  result = hn::IfThenElse(hn::Gt(size, hn::Set(d32, 0x477fffffu)), infinity, result);
  result = hn::IfThenElse(hn::Gt(size, hn::Set(d32, 0x7f800000u)), hn::Set(d32, 0x7e00u), result);
  hn::StoreU(hn::TruncateTo(d16, hn::Or(result, sign)), d16, reinterpret_cast<uint16_t*>(p));
#endif
}

/// What a T that was stored would be read as.
template <class T, class D>
HWY_INLINE hn::Vec<D> as_stored(D d, hn::Vec<D> v) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const hn::Rebind<uint32_t, D> d32;
    return hn::BitCast(d, hn::And(nearest_bf16(d, v), hn::Set(d32, 0xffff0000u)));
  } else if constexpr (std::is_same_v<T, Half>) {
    HWY_ALIGN T stored[hn::MaxLanes(d)];
    store(v, d, stored);
    return load(d, stored);
  } else {
    return v;
  }
}

/// Whether masked loads and stores of T leave the memory behind a masked lane alone.
template <class T>
inline constexpr bool kMasksMemory = HWY_TARGET <= HWY_AVX2&& std::is_floating_point_v<T>;

/// The first `count` (< lanes) elements; the other lanes hold `fill`. Reads nothing beyond them.
template <class T, class D>
HWY_INLINE hn::Vec<D> load_some(D d, const T* p, size_t count, Compute<T> fill = 0) {
  const auto first = hn::FirstN(d, count);
  if constexpr (kMasksMemory<T>) {
    return hn::IfThenElse(first, hn::MaskedLoad(first, d, p), hn::Set(d, fill));
  } else {
    HWY_ALIGN T buffer[hn::MaxLanes(d)] = {};
    std::memcpy(static_cast<void*>(buffer), p, HWY_MIN(count, hn::MaxLanes(d)) * sizeof(T));
    return hn::IfThenElse(first, load(d, buffer), hn::Set(d, fill));
  }
}
template <class T, class D>
HWY_INLINE void store_some(hn::Vec<D> v, D d, T* p, size_t count) {
  if constexpr (kMasksMemory<T>) {
    hn::BlendedStore(v, hn::FirstN(d, count), d, p);
  } else {
    HWY_ALIGN T buffer[hn::MaxLanes(d)];
    store(v, d, buffer);
    std::memcpy(static_cast<void*>(p), buffer, HWY_MIN(count, hn::MaxLanes(d)) * sizeof(T));
  }
}

/// `count` elements, at most a full vector: for loops whose last step is shorter.
template <class T, class D>
HWY_INLINE hn::Vec<D> load_upto(D d, const T* p, size_t count) {
  return count == hn::Lanes(d) ? load(d, p) : load_some(d, p, count);
}
template <class T, class D>
HWY_INLINE void store_upto(hn::Vec<D> v, D d, T* p, size_t count) {
  if (count == hn::Lanes(d)) {
    store(v, d, p);
  } else {
    store_some(v, d, p, count);
  }
}

/// out[i] = fn(in0[i], in1[i], …) for i < count, any length, no read or write beyond it.
template <class T, class Fn, class... In>
HWY_INLINE void map(T* out, size_t count, Fn&& fn, const In*... in) {
  const Tag<T> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    store(fn(d, load(d, in + i)...), d, out + i);
  }
  if (i < count) {
    store_some(fn(d, load_some(d, in + i, count - i)...), d, out + i, count - i);
  }
}

/// Combines fn(in0[i], in1[i], …) for i < count with `join` (a sum, a maximum), starting from
/// `start`, in an order that is fixed for a target: every fourth vector goes to the same
/// accumulator, at the end of a row, too, so that elements behind it that change nothing (zeros of
/// a sum) change no bit. The result still has one value per lane.
template <class D, class Join, class Fn, class... In>
HWY_INLINE hn::Vec<D> fold(D d, size_t count, hn::TFromD<D> start, Join&& join, Fn&& fn,
                           const In*... in) {
  const size_t lanes = hn::Lanes(d);
  const auto first = hn::Set(d, start);
  auto acc0 = first;
  auto acc1 = first;
  auto acc2 = first;
  auto acc3 = first;
  size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    acc0 = join(acc0, fn(d, load(d, in + i)...));
    acc1 = join(acc1, fn(d, load(d, in + i + lanes)...));
    acc2 = join(acc2, fn(d, load(d, in + i + 2 * lanes)...));
    acc3 = join(acc3, fn(d, load(d, in + i + 3 * lanes)...));
  }
  // At most three whole vectors and a part of one are left.
  const auto last = [&](size_t rest) HWY_ATTR {
    return hn::IfThenElse(hn::FirstN(d, rest), fn(d, load_some(d, in + count - rest, rest)...),
                          first);
  };
  const size_t rest = (count - i) % lanes;
  const size_t whole = (count - i) / lanes;
  if (whole > 0) {
    acc0 = join(acc0, fn(d, load(d, in + i)...));
  } else if (rest > 0) {
    acc0 = join(acc0, last(rest));
  }
  if (whole > 1) {
    acc1 = join(acc1, fn(d, load(d, in + i + lanes)...));
  } else if (whole == 1 && rest > 0) {
    acc1 = join(acc1, last(rest));
  }
  if (whole > 2) {
    acc2 = join(acc2, fn(d, load(d, in + i + 2 * lanes)...));
  } else if (whole == 2 && rest > 0) {
    acc2 = join(acc2, last(rest));
  }
  if (whole == 3 && rest > 0) {
    acc3 = join(acc3, last(rest));
  }
  return join(join(acc0, acc1), join(acc2, acc3));
}

/// Sum over lanes, in an order that is fixed for a target.
template <class D>
HWY_INLINE hn::TFromD<D> sum_lanes(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}

/// Sum of fn(in0[i], …) for i < count.
template <class D, class Fn, class... In>
HWY_INLINE hn::TFromD<D> sum_of(D d, size_t count, Fn&& fn, const In*... in) {
  const auto add = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  return sum_lanes(d, fold(d, count, hn::TFromD<D>{0}, add, fn, in...));
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_SIMD_INL_H_
