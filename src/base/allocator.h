#pragma once

#include <cstdint>

namespace heed {

/// Blocks for tensors. Freed blocks are kept and handed out again, so that a training step after the
/// first touches no new page: small ones by size class, those of 1 MiB and more from segments of huge
/// pages (base/segment_heap.h). Thread-safe.
void* allocate_block(int64_t bytes);
void free_block(void* block, int64_t bytes);

}  // namespace heed
