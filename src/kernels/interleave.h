#pragma once

#include <cstdint>

#include "kernels/gemm.h"
#include "kernels/quantized_blocks.h"

namespace heed::kernels {

// Quantised weights in the order in which a product reads them. 16 columns of B (rows of a weight
// [out, in]) form a group, and 32-bit words of their blocks lie side by side, one column per lane:
//
//   block: kSide bytes of scales, then [kWords][16 columns] words
//
// so that a product needs no transposition and reads one stream from its beginning to its end:
// memory answers several streams of a thread more slowly than one. Words lie on whole cache lines;
// where kSide is half a line, two blocks share their sides: side, side, words, words. A group has
// as many bytes as its 16 columns have in the file, rounded up to whole lines and pairs; the last
// group is padded with zeros.

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
struct Interleaved<BlockQ5K> {  // words of fifth bits, words of pairs
  static constexpr int64_t kWords = 8 + 32;
  static constexpr int64_t kSide = 3 * 64 + 64;
};
template <>
struct Interleaved<BlockQ6K> {  // per round 8 words of pairs, 4 of high bits; 4 of scales, scales
  static constexpr int64_t kWords = 4 * (8 + 4);
  static constexpr int64_t kSide = 4 * 64 + 64;  // half of the last line is not used
};

/// A block whose products are made by the dot-product instruction of a processor that may lack it
/// (ARM).
template <class Block>
struct WithDotInstruction : Block {};
template <class Block>
struct Interleaved<WithDotInstruction<Block>> : Interleaved<Block> {};

/// The same for the matrix instruction, which multiplies two rows at a time by two columns (ARM).
template <class Block>
struct WithMatrixInstruction : Block {};
template <class Block>
struct Interleaved<WithMatrixInstruction<Block>> : Interleaved<Block> {};

/// Blocks whose sides come before their words.
template <class Block>
inline constexpr int64_t kUnitBlocks = Interleaved<Block>::kSide % 64 == 0 ? 1 : 2;
template <class Block>
inline constexpr int64_t kUnitBytes =
    kUnitBlocks<Block>*(Interleaved<Block>::kWords * 4 * kGroupColumns + Interleaved<Block>::kSide);

/// Bytes of `blocks` blocks of a group.
template <class Block>
constexpr int64_t group_bytes(int64_t blocks) {
  return (blocks + kUnitBlocks<Block> - 1) / kUnitBlocks<Block> * kUnitBytes<Block>;
}
/// Where the side and the words of a block lie in its group.
template <class Block>
constexpr int64_t side_offset(int64_t block) {
  return block / kUnitBlocks<Block> * kUnitBytes<Block> +
         block % kUnitBlocks<Block> * Interleaved<Block>::kSide;
}
template <class Block>
constexpr int64_t words_offset(int64_t block) {
  using I = Interleaved<Block>;
  return block / kUnitBlocks<Block> * kUnitBytes<Block> + kUnitBlocks<Block> * I::kSide +
         block % kUnitBlocks<Block> * I::kWords * 4 * kGroupColumns;
}

/// Bytes of n columns of k weights in this order; 0 for a type that has none.
int64_t interleaved_bytes(Element type, int64_t n, int64_t k);

/// Brings n columns, one after the other in memory, into this order, in parallel. `out` is aligned
/// to cache lines.
void interleave(Element type, const void* blocks, int64_t n, int64_t k, void* out);

/// Whether this processor has a kernel for interleaved weights: AVX-512 VNNI, AVX2 or NEON.
bool multiplies_interleaved();

/// C[m, n] = A[m, k] · B[k, n] with B.interleaved: the bits of quantized_gemm().
void interleaved_gemm(const GemmProblem& problem);

/// For tests: false leaves the matrix instruction (ARM's SMMLA) unused. The bits are the same.
void use_matrix_instructions(bool wanted);
bool uses_matrix_instructions();

}  // namespace heed::kernels
