#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace heed {

/// Large blocks, cut from segments of memory that ask for huge pages. A freed block joins its free
/// neighbours, and the smallest free range that is large enough is cut for the next one: what a
/// step's activations leave serves its gradients. Not thread-safe.
class Arena {
 public:
  /// Null where the system has no memory left. Sizes are whole pages.
  void* take(int64_t bytes);
  void give(void* block, int64_t bytes);
  /// Gives all free ranges back to the system.
  void release();
  /// Bytes asked of the system: in use or free.
  int64_t mapped() const { return mapped_; }

 private:
  bool grow(int64_t bytes);
  void add_range(char* begin, int64_t bytes);
  void drop_range(std::map<char*, int64_t>::iterator range);

  std::map<char*, int64_t> by_address_;          // free ranges; no two touch
  std::set<std::pair<int64_t, char*>> by_size_;  // the same
  int64_t mapped_ = 0;
};

}  // namespace heed
