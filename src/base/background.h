#pragma once

#include <future>
#include <system_error>
#include <utility>

namespace heed {

/// Runs `work` on a thread of its own. Where no thread can be started, it runs on the caller's,
/// when the result is asked for.
template <class Work>
auto run_in_background(Work work) {
  try {
    return std::async(std::launch::async, work);
  } catch (const std::system_error&) {
    return std::async(std::launch::deferred, std::move(work));
  }
}

}  // namespace heed
