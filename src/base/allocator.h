#pragma once

#include <cstdint>

namespace heed {

/// Blocks for tensors. Freed blocks are kept and handed out again, so that a training step after
/// the first touches no new page: small ones by size class, from 1 MiB on in an Arena. Thread-safe.
void* allocate_block(int64_t bytes);
void free_block(void* block, int64_t bytes);

/// Held across a fork, so that the child finds the lists of blocks whole.
void lock_allocator();
void unlock_allocator();

}  // namespace heed
