#pragma once

#include <cstdint>

#include "kernels/gemm.h"

namespace heed::kernels {

// Weights of f32 or bf16 in the panels that a product multiplies by, made once instead of in every
// product: [n / 32][k][32] floats, or [n / 32][(k + 1) / 2][32] pairs of bf16, zeros past the end.
// A product with such panels has the bits of one without.

inline constexpr int64_t kPackedColumns = 32;

/// Whether a product of these types reads panels of B on this machine: f32 with f32, and bf16 with
/// bf16 where there are instructions for it.
bool reads_packed(Element a, Element b);

/// Bytes of the panels of a weight with n columns of k elements.
int64_t packed_bytes(Element type, int64_t n, int64_t k);

/// Fills the panels of `b` [k, n] (Matrix::interleaved), in parallel. `out` is aligned to cache
/// lines.
void pack_weights(const Matrix& b, int64_t n, int64_t k, void* out);

}  // namespace heed::kernels
