#pragma once

#include <cstdint>

namespace heed {

/// Caching allocator for tensors. Freed blocks are kept and reused, so a training step after the
/// first touches no new page. Small blocks are cached by size class; blocks of 1 MiB or more come
/// from an Arena. Thread-safe. Throws std::bad_alloc.
void* allocate_block(int64_t bytes);
void free_block(void* block, int64_t bytes);

}  // namespace heed
