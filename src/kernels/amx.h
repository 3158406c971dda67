#pragma once

#include "kernels/tile_unit.h"

namespace heed::kernels {

/// What stands between a process and AMX tiles of bf16.
enum class AmxState {
  absent,         ///< the CPU or the system has none
  switched_off,   ///< HEED_AMX=off
  not_permitted,  ///< the system refuses the process the tiles' state
  wrong,          ///< the self-check did not get the results of AVX-512 BF16
  in_use,
};

/// Asks the CPU and the system, once per process, for anything but `wrong`. Whoever gets `in_use`
/// may multiply with amx_tiles().
AmxState request_amx();

/// The instructions. Null where heed was not built for x86-64 on Linux.
const TileUnit* amx_tiles();

// What gemm() does with them. On a machine whose amx_state() is `in_use`, every product of bf16,
// from one row up, uses tiles. They add 32 products at a time: a chain over even k and one over odd
// k, both from zero, whose sum is added to that of the k before. So an element depends on neither
// m, n, its position in C nor the thread count, but its bits are not those of other machines.

/// Whether products of bf16 use AMX tiles, and if not, why. The first call compares a small product
/// with that of AVX-512 BF16.
AmxState amx_state();

/// That comparison: whole numbers, which are exact in any order, with edges in every dimension.
/// Needs AVX-512 BF16.
bool computes_correctly(const TileUnit& unit);

/// For tests: the tiles that products of bf16 use where there is AVX-512 BF16; null for none.
void use_tile_unit(const TileUnit* unit);

}  // namespace heed::kernels
