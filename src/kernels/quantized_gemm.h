#pragma once

#include "kernels/gemm.h"

namespace heed::kernels {

/// C[m, n] = A[m, k] · B[k, n] where B is q8_0 or q4_0 (its blocks lie along k, a multiple of 32)
/// and C is f32, f16 or bf16. Each row of A is rounded to 8-bit numbers in blocks of 32 with a
/// scale in f32 each. Within a block the products are added up exactly, in integers; over the
/// blocks an element is one chain of fused multiply-adds in f32: it depends neither on the thread
/// count nor on m, n or the position in C. A row with a NaN or an infinity gives NaN everywhere.
void quantized_gemm(const GemmProblem& problem);

/// The same for every other block type. Rows of A are rounded in blocks as long as B's (32 or 256);
/// a block's sum, with the small scales of a superblock multiplied in, is exact in 32 bits.
void quantized_blocks_gemm(const GemmProblem& problem);

/// For tests: false leaves the dot-product instructions (AVX-512 VNNI, ARM) unused. The bits are
/// the same.
void use_dot_instructions(bool wanted);
bool uses_dot_instructions();

}  // namespace heed::kernels
