#pragma once

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/types.h"

namespace heed::kernels {

/// A matrix in memory: element (row, column) at data[row * row_stride + column * column_stride].
/// For a quantised type the row stride is 1 and the column stride a multiple of 32.
struct Matrix {
  const void* data = nullptr;
  Element type = Element::f32;
  int64_t row_stride = 0;
  int64_t column_stride = 1;
  /// The same weights in the order of kernels/interleave.h; null where nobody made it.
  const void* interleaved = nullptr;
};

/// What happens to a finished tile of the product while it is in cache. Pointers are of the
/// result's type. In this order: + bias, copy to `before`, activation, + residual.
struct Epilogue {
  const void* bias = nullptr;  ///< [n]
  void* before = nullptr;      ///< [m, n], dense: the value before the activation
  Unary activation = Unary::identity;
  const void* residual = nullptr;  ///< [m, n]
  int64_t residual_stride = 0;
};

/// One product on raw memory: C[m, n] = A[m, k] · B[k, n] (+ C where `accumulate`). The rows of C
/// are `c_stride` elements apart.
struct GemmProblem {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  Matrix a;
  Matrix b;
  void* c = nullptr;
  Element c_type = Element::f32;
  int64_t c_stride = 0;
  bool accumulate = false;
  Epilogue epilogue = {};
};

/// Multiplications of a product that one thread does alone: a few microseconds, two hand-overs'
/// worth.
constexpr int64_t kSmallProduct = 400000;

/// Computes a product. Every element is one chain of fused
/// multiply-adds over k = 0, 1, 2 …, or where A is f32 or f16 and B is of 16 bits and lies along k
/// (row stride 1) 16 chains over every 16th k, added up in a fixed order: it depends neither on the
/// thread count nor on m, n or the position in C. A and B are f64 exactly where C is; else any of
/// f32, f16, bf16, computed in f32, and B may be quantised. Only f32 and f64 accumulate.
///
/// Where A is bf16, a floating B is rounded to bf16, and sums are f32. AVX-512 BF16 multiplies such
/// numbers twice as fast, but takes subnormal ones and such sums for zero; all else is the same to
/// the bit everywhere but with AMX and BFMMLA, which add in other orders (amx.h, arm_bf16.h).
void gemm(const GemmProblem& problem);

/// Whether the kernels in use, all of them, multiply pairs of bf16; false (for tests) prevents it.
void use_bf16_instructions(bool wanted);
bool uses_bf16_instructions();

}  // namespace heed::kernels
