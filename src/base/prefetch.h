#pragma once

#include <cstdint>

namespace heed {

/// Announces memory that is read after the current loop. Idle threads of the pool prefetch it into
/// their caches. It is never dereferenced, so it may be freed by then; results do not change.
void prefetch_while_idle(const void* data, int64_t bytes);

}  // namespace heed
