#pragma once

#include "support/budget.h"

namespace heed::test {

/// A size that a test multiplies by: `small` in an emulator (./dev test arm), which needs seconds
/// for what a processor does in milliseconds. It must still reach the blocks and tails that the
/// test is about.
template <class T>
constexpr T sized(T whole, T small) {
  return kEmulated ? small : whole;
}

}  // namespace heed::test

/// Skips a test that cannot be made small enough for an emulator; ./dev test arm lists the reason.
#define HEED_SKIP_EMULATED(reason)          \
  if constexpr (heed::test::kEmulated) {    \
    GTEST_SKIP() << "emulator: " << reason; \
  }                                         \
  static_assert(true)
