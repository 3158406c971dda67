#pragma once

#include <cstdint>

namespace heed {

/// Blocks for tensors. Freed blocks are kept by size class and handed out again, so that a training
/// step after the first touches no new page. Blocks of 1 MiB and more lie on 2 MiB boundaries and
/// ask for huge pages. Thread-safe.
void* allocate_block(int64_t bytes);
void free_block(void* block, int64_t bytes);

}  // namespace heed
