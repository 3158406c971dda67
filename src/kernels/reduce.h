#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace heed::kernels {

// T: float, double, Half, BFloat16. Every sum has one fixed order, whatever the thread count.

/// Sum of all elements: tiles in the compute type, their sums in f64.
template <class T>
double sum_all(const T* x, int64_t count);
/// Sum of squares, in the same way.
template <class T>
double sum_of_squares(const T* x, int64_t count);
/// Sum of (a - b)².
template <class T>
double sum_of_squared_differences(const T* a, const T* b, int64_t count);

/// Elements of scratch that sum_axis wants.
int64_t sum_axis_scratch(int64_t outer, int64_t n, int64_t inner);
/// x [outer, n, inner] -> y [outer, inner] summed over n, times `scale`. X: T, its compute type,
/// or a 16-bit type where T is float.
template <class T, class X>
void sum_axis(T* y, const X* x, int64_t outer, int64_t n, int64_t inner, double scale,
              Compute<T>* scratch);

/// x [outer, n, inner] -> the largest over n and its index (the first of equals; a NaN wins).
template <class T>
void max_axis(T* largest, int64_t* index, const T* x, int64_t outer, int64_t n, int64_t inner);

}  // namespace heed::kernels
