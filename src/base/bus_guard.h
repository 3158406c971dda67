#pragma once

#include <cstddef>
#include <functional>

namespace heed {

struct GuardedRange;

/// Touching a mapped page that its file no longer has raises SIGBUS. A guarded range turns that
/// into zeros and a mark: the handler, installed by the first call, maps zero pages over the rest
/// of the range. Faults elsewhere go to whoever handled SIGBUS before. See
/// docs/adr/0009-truncated-files.md.
GuardedRange* guard_range(const void* begin, size_t bytes, std::function<void(bool cut)> check);
/// To be called before the range is unmapped.
void release_range(GuardedRange* range);
/// True where a page of the range was found missing.
bool was_cut(const GuardedRange* range);

/// Runs the `check` of every range there is with was_cut(); one that throws ends it. Any thread may
/// do so from the moment that guard_range() knows the range.
void check_guarded_ranges();

}  // namespace heed
