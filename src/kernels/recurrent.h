#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace heed::kernels {

// T: float, double, Half, BFloat16; C its compute type. B rows, H hidden units; gates lie side by
// side in a row of 4H (i, f, g, o) or 3H (r, z, n).

/// gates [B, 4H] before their functions -> after them in `active`, and the new c and h [B, H].
template <class T>
void lstm_gates(Compute<T>* active, T* c, T* h, const T* gates, const T* c_before, int64_t rows,
                int64_t hidden);
/// dh or dc may be null. c is the new cell state.
template <class T>
void lstm_gates_grad(T* dgates, T* dc_before, const T* dh, const T* dc, const Compute<T>* active,
                     const T* c, const T* c_before, int64_t rows, int64_t hidden);

/// from_x and from_h [B, 3H] -> `active` (r, z, n) and the new h.
template <class T>
void gru_gates(Compute<T>* active, T* h, const T* from_x, const T* from_h, const T* h_before,
               int64_t rows, int64_t hidden);
template <class T>
void gru_gates_grad(T* dfrom_x, T* dfrom_h, T* dh_before, const T* dh, const Compute<T>* active,
                    const T* from_h, const T* h_before, int64_t rows, int64_t hidden);

}  // namespace heed::kernels
