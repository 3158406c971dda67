#pragma once

#include <cstdint>

namespace heed {

/// Names memory that is read after the loop that runs now. Threads of the pool that have nothing to
/// do ask for it meanwhile; it is never read, so it may be gone by then. Changes nothing but the
/// time.
void fetch_ahead(const void* data, int64_t bytes);

}  // namespace heed
