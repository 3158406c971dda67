#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace heed::kernels {

enum class Unary {
  identity,
  exp,
  log,
  sqrt,
  tanh,
  sigmoid,
  relu,
  gelu,
  gelu_tanh,
  silu,
  quick_gelu
};

/// Whether the gradient of the function is computed from its result rather than from its input.
constexpr bool grad_reads_result(Unary kind) {
  return kind == Unary::exp || kind == Unary::sqrt || kind == Unary::tanh ||
         kind == Unary::sigmoid || kind == Unary::relu;
}

// T: float, double, Half, BFloat16. Results may overwrite an input.

/// y[i] = f(x[i]).
template <class T>
void unary(Unary kind, T* y, const T* x, int64_t count);
/// The same for `rows` rows, on the calling thread: for the tile of a parallel loop.
template <class T>
void unary_tile(Unary kind, T* y, int64_t y_stride, const T* x, int64_t x_stride, int64_t rows,
                int64_t count);
/// dx[i] = dy[i] * f'; `saved` is the result or the input, by grad_reads_result().
template <class T>
void unary_grad(Unary kind, T* dx, const T* dy, const T* saved, int64_t count);

/// y[i] = f(gate[i]) * up[i].
template <class T>
void gated(Unary kind, T* y, const T* gate, const T* up, int64_t count);
template <class T>
void gated_grad(Unary kind, T* dgate, T* dup, const T* dy, const T* gate, const T* up,
                int64_t count);

}  // namespace heed::kernels
