#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace heed::kernels {

// T: float, double, Half, BFloat16. x, y and gradients are [rows, n]; weight and bias [n].

/// y = (x - mean) * scale * weight + bias with scale = 1 / sqrt(variance + eps); bias may be null.
/// `mean` and `scale` [rows] are kept for the gradient.
template <class T>
void layer_norm(T* y, Compute<T>* mean, Compute<T>* scale, const T* x, const T* weight,
                const T* bias, double eps, int64_t rows, int64_t n);

/// Elements of scratch that the gradients want.
int64_t norm_grad_scratch(int64_t rows, int64_t n);
/// dweight and dbias [n] may be null. They are summed over fixed tiles of rows.
template <class T>
void layer_norm_grad(T* dx, T* dweight, T* dbias, const T* dy, const T* x, const T* weight,
                     const Compute<T>* mean, const Compute<T>* scale, int64_t rows, int64_t n,
                     Compute<T>* scratch);

/// y = x * scale * weight with scale = 1 / sqrt(mean of squares + eps).
template <class T>
void rms_norm(T* y, Compute<T>* scale, const T* x, const T* weight, double eps, int64_t rows,
              int64_t n);
template <class T>
void rms_norm_grad(T* dx, T* dweight, const T* dy, const T* x, const T* weight,
                   const Compute<T>* scale, int64_t rows, int64_t n, Compute<T>* scratch);

}  // namespace heed::kernels
