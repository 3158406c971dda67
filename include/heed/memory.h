#pragma once

#include <cstdint>

#include "heed/export.h"

namespace heed {

/// What the caching allocator holds; see docs/adr/0003-memory.md.
struct MemoryStats {
  int64_t in_use = 0;    ///< bytes in live tensors
  int64_t peak = 0;      ///< the most that was in use since reset_peak_memory()
  int64_t reserved = 0;  ///< bytes asked of the system, in use or kept for reuse
};
HEED_API MemoryStats memory_stats();
HEED_API void reset_peak_memory();
/// Gives the blocks kept for reuse back to the system.
HEED_API void release_cached_memory();

}  // namespace heed
