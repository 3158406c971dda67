#pragma once

// Include inside foreach_target files, after <hwy/highway.h>. Function names in such files must
// differ between files: every file's are templates in the same namespace.

#include <hwy/highway.h>

#include <algorithm>

#include "kernels/types.h"

/// Calls X(T) for every floating type a kernel is made for.
#define HEED_FLOAT_TYPES(X) X(float) X(double) X(Half) X(BFloat16)

/// In the HWY_ONCE part of a foreach_target file: a table of the function template `fn` for every
/// compiled target. HEED_CALL(fn, T)(…) calls fn<T> of the best one this machine has.
#define HEED_EXPORT(fn)                                                            \
  template <class... T>                                                            \
  struct fn##_table {                                                              \
    static constexpr decltype(&HWY_STATIC_DISPATCH(                                \
        fn<T...>)) entries[HWY_MAX_DYNAMIC_TARGETS + 2] = {                        \
        nullptr, HWY_CHOOSE_TARGET_LIST(fn<T...>), HWY_CHOOSE_FALLBACK(fn<T...>)}; \
  };
#define HEED_CALL(fn, ...) (fn##_table<__VA_ARGS__>::entries[::heed::kernels::target_index()])

namespace heed::kernels {

/// Place of the chosen target in a dispatch table. Static because the table's layout is this
/// file's.
static inline size_t target_index() {
  hwy::ChosenTarget& chosen = hwy::GetChosenTarget();
  if (!chosen.IsInitialized()) {
    chosen.Update(hwy::SupportedTargets());
  }
  return chosen.GetIndex();
}

/// Rows of n elements that make a tile: about 16,384 elements.
inline int64_t rows_per_tile(int64_t n) {
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(n, 1));
}

}  // namespace heed::kernels
