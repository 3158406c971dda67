#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace heed::kernels {

// T: float, double, Half, BFloat16. Everything is [rows, n]; results may overwrite an input.

/// A row of -infinity gives zeros; a NaN makes its whole row NaN.
template <class T>
void softmax(T* y, const T* x, int64_t rows, int64_t n);
/// dx = y (dy - sum(y dy)).
template <class T>
void softmax_grad(T* dx, const T* dy, const T* y, int64_t rows, int64_t n);

template <class T>
void log_softmax(T* y, const T* x, int64_t rows, int64_t n);
/// dx = dy - e^y sum(dy).
template <class T>
void log_softmax_grad(T* dx, const T* dy, const T* y, int64_t rows, int64_t n);

/// log(sum of e^x) of one row, on one thread. NaN where an element is NaN or +infinity.
double log_sum_exp(const float* x, int64_t n);

}  // namespace heed::kernels
