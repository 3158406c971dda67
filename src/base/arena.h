#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace heed {

/// Best-fit allocator for large blocks, carved from segments that request huge pages. A freed block
/// merges with its free neighbours, so the memory of a step's activations serves its gradients.
/// Not thread-safe.
class Arena {
 public:
  /// Returns null if the system has no memory left. Sizes are multiples of the page size.
  void* take(int64_t bytes);
  void give(void* block, int64_t bytes);
  /// Returns all free ranges to the system.
  void release();
  /// Bytes obtained from the system, in use or free.
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
