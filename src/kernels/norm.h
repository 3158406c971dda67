#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace heed::kernels {

// T: float, double, Half, BFloat16. x, y and gradients are [rows, n]; weight and bias [n].

template <class T>
struct LayerNorm {
  T* y;
  Compute<T>* mean;   ///< [rows], kept for the gradient
  Compute<T>* scale;  ///< [rows], likewise
  const T* x;
  const T* weight;
  const T* bias;  ///< may be null
  double eps;
  int64_t rows, n;
};
/// y = (x - mean) * scale * weight + bias with scale = 1 / sqrt(variance + eps).
template <class T>
void layer_norm(const LayerNorm<T>& norm);

/// Elements of scratch that the gradients want.
int64_t norm_grad_scratch(int64_t rows, int64_t n);
template <class T>
struct NormGrad {
  T* dx;
  T* dweight;  ///< [n]; may be null
  T* dbias;    ///< [n]; may be null
  const T* dy;
  const T* x;
  const T* weight;
  const Compute<T>* mean;  ///< of layer_norm; null for rms_norm
  const Compute<T>* scale;
  int64_t rows, n;
  Compute<T>* scratch;
};
/// The gradient of both norms. dweight and dbias are summed over fixed tiles of rows.
template <class T>
void norm_grad(const NormGrad<T>& norm);

/// y = x * scale * weight with scale = 1 / sqrt(mean of squares + eps).
template <class T>
void rms_norm(T* y, Compute<T>* scale, const T* x, const T* weight, double eps, int64_t rows,
              int64_t n);

}  // namespace heed::kernels
