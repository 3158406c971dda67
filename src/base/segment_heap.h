#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace heed {

/// Large blocks cut from segments that the system maps. The smallest free piece that is large
/// enough is cut, lowest address first; freed neighbours grow together again, so that a batch of
/// another length uses the same memory instead of asking for more. Segments lie on 2 MiB boundaries
/// and ask for huge pages. Not thread-safe: the allocator's lock guards it.
class SegmentHeap {
 public:
  /// A block of at least `bytes`, on a page's boundary; nullptr where the system has no more.
  void* take(int64_t bytes);
  void give(void* block);
  /// Gives the segments that nothing lies in back to the system.
  void release();
  /// Bytes mapped from the system.
  int64_t reserved() const { return reserved_; }
  static int64_t rounded(int64_t bytes);

 private:
  struct Piece {
    int64_t size = 0;
    bool used = false;
    bool first = false;  ///< begins a segment: never joined to what lies before it
  };
  using Pieces = std::map<char*, Piece>;  // by address: neighbours are neighbours

  bool map_segment(int64_t bytes);
  void cut(Pieces::iterator piece, int64_t size);
  void join_next(Pieces::iterator piece);
  bool whole_segment(Pieces::const_iterator piece) const;

  Pieces pieces_;
  std::set<std::pair<int64_t, char*>> free_;  // by size, then address
  int64_t reserved_ = 0;
  int64_t used_ = 0;
};

}  // namespace heed
