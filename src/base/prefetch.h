#pragma once

#include <cstdint>

namespace heed {

/// Announces memory that will be read after the parallel loop that runs now. Idle threads of the
/// pool prefetch it into their caches while they wait. The memory is never dereferenced, so it may
/// have been freed by then. Affects speed only.
void prefetch_when_idle(const void* data, int64_t bytes);

}  // namespace heed
