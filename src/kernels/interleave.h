#pragma once

#include <cstdint>

#include "kernels/gemm.h"
#include "kernels/quantized_blocks.h"

namespace heed::kernels {

// Quantised weights in the order in which a product reads them. 16 columns of B (rows of a weight
// [out, in]) form a group, and 32-bit words of their blocks lie side by side, one column per lane:
//
//   group: [blocks][kWords][16 columns] words, then [blocks][kSide] bytes of scales
//
// so that a product needs no transposition and reads one long stream. A group has as many bytes as
// its 16 columns have in the file, rounded up to whole cache lines; the last group is padded with
// zeros.

inline constexpr int64_t kGroupColumns = 16;

/// What a block of 16 columns looks like: words of weights, and bytes of scales beside them.
/// Types without a specialisation have no interleaved order.
template <class Block>
struct Interleaved {
  static constexpr int64_t kWords = 0;
  static constexpr int64_t kSide = 0;
};
template <>
struct Interleaved<BlockQ8> {  // bytes + 128; halves of scales
  static constexpr int64_t kWords = 8;
  static constexpr int64_t kSide = 32;
};
template <>
struct Interleaved<BlockQ4> {
  static constexpr int64_t kWords = 4;
  static constexpr int64_t kSide = 32;
};
template <>
struct Interleaved<BlockIQ4NL> {
  static constexpr int64_t kWords = 4;
  static constexpr int64_t kSide = 32;
};
template <>
struct Interleaved<BlockQ4_1> {  // scales, minima
  static constexpr int64_t kWords = 4;
  static constexpr int64_t kSide = 64;
};
template <>
struct Interleaved<BlockQ5_0> {  // the first word: bit w of byte i is the fifth of weight 4w + i
  static constexpr int64_t kWords = 5;
  static constexpr int64_t kSide = 32;
};
template <>
struct Interleaved<BlockQ5_1> {
  static constexpr int64_t kWords = 5;
  static constexpr int64_t kSide = 64;
};
template <>
struct Interleaved<BlockQ4K> {  // words of pairs; 3 words of packed scales, scales, minima
  static constexpr int64_t kWords = 32;
  static constexpr int64_t kSide = 3 * 64 + 64;
};
template <>
struct Interleaved<BlockQ5K> {  // words of pairs, words of fifth bits
  static constexpr int64_t kWords = 32 + 8;
  static constexpr int64_t kSide = 3 * 64 + 64;
};
template <>
struct Interleaved<BlockQ6K> {  // words of pairs, words of high bits; 4 words of scales, scales
  static constexpr int64_t kWords = 32 + 16;
  static constexpr int64_t kSide = 4 * 64 + 32;
};

/// Bytes of `blocks` blocks of a group.
template <class Block>
constexpr int64_t group_words_bytes(int64_t blocks) {
  return blocks * Interleaved<Block>::kWords * 4 * kGroupColumns;
}
template <class Block>
constexpr int64_t group_bytes(int64_t blocks) {
  constexpr int64_t kLine = 64;
  return group_words_bytes<Block>(blocks) +
         (blocks * Interleaved<Block>::kSide + kLine - 1) / kLine * kLine;
}

/// Bytes of n columns of k weights in this order; 0 for a type that has none.
int64_t interleaved_bytes(Element type, int64_t n, int64_t k);

/// Brings n columns, one after the other in memory, into this order, in parallel. `out` is aligned
/// to cache lines.
void interleave(Element type, const void* blocks, int64_t n, int64_t k, void* out);

/// Whether this processor has a kernel for interleaved weights: AVX-512 VNNI, AVX2 or NEON.
bool multiplies_interleaved();

/// C[m, n] = A[m, k] · B[k, n] with B.interleaved: the bits of quantized_gemm().
void interleaved_gemm(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, void* c,
                      Element c_type, int64_t c_stride, const Epilogue& epilogue = {});

}  // namespace heed::kernels
