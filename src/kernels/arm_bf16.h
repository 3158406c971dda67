#pragma once

namespace heed::kernels {

/// Whether products of bf16 use ARM's matrix instruction (BFMMLA), and if not, why.
enum class ArmBf16State {
  absent,        ///< the CPU has none, or is no ARM
  switched_off,  ///< HEED_ARM_BF16=off
  wrong,         ///< the self-check did not get the results of f32 arithmetic
  in_use,
};

/// The first call multiplies whole numbers, which are exact in any order, with the instruction and
/// without.
ArmBf16State arm_bf16_state();

// What gemm() does with it. On a machine whose arm_bf16_state() is `in_use`, every product of bf16
// uses the instruction, from one row up. It adds two products at a time, rounds to odd and takes
// subnormal numbers for zero. So an element depends on neither m, n, its position in C nor the
// thread count, but its bits are not those of other machines.

/// For tests: false leaves the instruction unused.
void use_arm_bf16(bool wanted);
bool uses_arm_bf16();

}  // namespace heed::kernels
