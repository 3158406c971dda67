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
template <class T>
struct LstmGrad {
  T* dgates;     ///< [B, 4H]
  T* dc_before;  ///< [B, H]
  const T* dh;   ///< may be null
  const T* dc;   ///< may be null
  const Compute<T>* active;
  const T* c;  ///< the new cell state
  const T* c_before;
  int64_t rows, hidden;
};
template <class T>
void lstm_gates_grad(const LstmGrad<T>& cell);

/// from_x and from_h [B, 3H] -> `active` (r, z, n) and the new h.
template <class T>
void gru_gates(Compute<T>* active, T* h, const T* from_x, const T* from_h, const T* h_before,
               int64_t rows, int64_t hidden);
template <class T>
struct GruGrad {
  T* dfrom_x;    ///< [B, 3H]
  T* dfrom_h;    ///< [B, 3H]
  T* dh_before;  ///< [B, H]
  const T* dh;
  const Compute<T>* active;
  const T* from_h;
  const T* h_before;
  int64_t rows, hidden;
};
template <class T>
void gru_gates_grad(const GruGrad<T>& cell);

}  // namespace heed::kernels
