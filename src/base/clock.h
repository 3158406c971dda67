#pragma once

#include <chrono>

namespace heed {

/// Seconds on a clock that never goes back; only differences mean anything.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace heed
