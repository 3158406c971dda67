#pragma once

#include "heed/export.h"

namespace heed {

/// Number of threads that heed's loops use (the caller's included). Starts as the number of cores
/// this process may run on. Results do not depend on it.
HEED_API int thread_count();

/// Sets it; 1 … 1024, else an error.
HEED_API void set_thread_count(int threads);

}  // namespace heed
