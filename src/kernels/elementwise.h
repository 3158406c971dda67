#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace heed::kernels {

// T: float, double, Half, BFloat16 in everything below.

/// into[i] += x[i].
template <class T>
void add_inplace(T* into, const T* x, int64_t count);

enum class Binary { add, sub, mul, div };

/// out[i] = a[i * step_a] op b[i * step_b], on the calling thread. out may be a or b where the step
/// is 1.
template <class T>
void binary_row(Binary op, T* out, const T* a, int64_t step_a, const T* b, int64_t step_b,
                int64_t count);

/// out[i] = x[i] * scale + shift.
template <class T>
void scale_shift(T* out, const T* x, double scale, double shift, int64_t count);

}  // namespace heed::kernels
