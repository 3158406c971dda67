#pragma once

#include <cstddef>
#include <functional>

namespace heed {

struct GuardedRange;

/// Reading a mapped page that was truncated from its file raises SIGBUS. In a guarded range the
/// signal handler, installed by the first call, maps zero pages over the rest of the range and
/// marks it as truncated. Faults elsewhere go to the handler that was installed before. See
/// docs/adr/0010-truncated-files.md.
GuardedRange* guard_range(const void* begin, size_t bytes, std::function<void()> check);
/// Must be called before the range is unmapped.
void release_range(GuardedRange* range);
/// True if a page of the range was found missing.
bool was_truncated(const GuardedRange* range);

/// Runs the `check` of every guarded range; the first exception ends the loop.
void check_guarded_ranges();

}  // namespace heed
