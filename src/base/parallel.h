#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "heed/runtime.h"

namespace heed {

namespace detail {
HEED_API void run_tiles(int64_t tiles, void (*call)(void* context, int64_t tile), void* context);
}

/// Calls fn(tile) once for every tile in [0, tiles), on the pool's threads and the caller's.
/// Tiles are claimed one by one as threads come free, so a slow core takes fewer of them. Which
/// thread takes which tile is not defined: a tile must not depend on another, and the caller must
/// cut the work into the same tiles whatever the thread count. The first exception is rethrown
/// here. A call from inside a tile runs serially.
template <class Fn>
void parallel_for(int64_t tiles, Fn&& fn) {
  using Plain = std::remove_reference_t<Fn>;
  detail::run_tiles(
      tiles, [](void* context, int64_t tile) { (*static_cast<Plain*>(context))(tile); },
      const_cast<void*>(static_cast<const void*>(std::addressof(fn))));
}

/// Calls fn(begin, end) on consecutive ranges of at most `grain` items that cover [0, count).
template <class Fn>
void parallel_ranges(int64_t count, int64_t grain, Fn&& fn) {
  parallel_for((count + grain - 1) / grain, [&](int64_t tile) {
    const int64_t begin = tile * grain;
    fn(begin, begin + grain < count ? begin + grain : count);
  });
}

/// True on a thread that is running a tile.
bool inside_parallel();

/// While one lives, parallel loops of this thread run on it alone: for work that finishes before
/// another thread could wake up.
class SingleThreadedScope {
 public:
  SingleThreadedScope();
  ~SingleThreadedScope();
  SingleThreadedScope(const SingleThreadedScope&) = delete;
  SingleThreadedScope& operator=(const SingleThreadedScope&) = delete;

 private:
  bool before_;
};

}  // namespace heed
