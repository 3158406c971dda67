#include "base/segment_heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

namespace heed {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kHuge = int64_t{2} << 20;
constexpr int64_t kSegment = int64_t{64} << 20;  // the smallest segment: most blocks share one
constexpr int64_t kOwn = int64_t{16}
                         << 20;  // from here on a request that finds no room gets its own

int64_t round_up(int64_t bytes, int64_t step) { return (bytes + step - 1) / step * step; }

char* map_huge(int64_t bytes) {
  // Over-map by one huge page and cut the ends, so that the segment starts on a 2 MiB boundary.
  const int64_t padded = bytes + kHuge;
  void* raw = mmap(nullptr, static_cast<size_t>(padded), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) {
    return nullptr;
  }
  const auto address = reinterpret_cast<int64_t>(raw);
  const int64_t begin = round_up(address, kHuge);
  if (begin > address) {
    munmap(raw, static_cast<size_t>(begin - address));
  }
  const int64_t tail = address + padded - (begin + bytes);
  if (tail > 0) {
    munmap(reinterpret_cast<void*>(begin + bytes), static_cast<size_t>(tail));
  }
  auto* segment = reinterpret_cast<char*>(begin);
  madvise(segment, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return segment;
}

}  // namespace

int64_t SegmentHeap::rounded(int64_t bytes) { return round_up(bytes, kPage); }

void* SegmentHeap::take(int64_t bytes) {
  const int64_t size = rounded(bytes);
  auto found = free_.lower_bound({size, nullptr});
  if (found == free_.end()) {
    // What lies idle in segments too small for this request goes back before more is asked for.
    if (reserved_ + size > used_ + used_ / 2 + kSegment) {
      release();
    }
    if (!map_segment(size)) {
      return nullptr;
    }
    found = free_.lower_bound({size, nullptr});
  }
  const auto piece = pieces_.find(found->second);
  cut(piece, size);
  free_.erase({size, piece->first});
  piece->second.used = true;
  used_ += size;
  return piece->first;
}

void SegmentHeap::give(void* block) {
  auto piece = pieces_.find(static_cast<char*>(block));
  piece->second.used = false;
  used_ -= piece->second.size;
  free_.insert({piece->second.size, piece->first});
  join_next(piece);
  if (!piece->second.first) {
    const auto before = std::prev(piece);
    if (!before->second.used) {
      join_next(before);
    }
  }
}

void SegmentHeap::release() {
  for (auto piece = pieces_.begin(); piece != pieces_.end();) {
    if (!whole_segment(piece)) {
      ++piece;
      continue;
    }
    munmap(piece->first, static_cast<size_t>(piece->second.size));
    reserved_ -= piece->second.size;
    free_.erase({piece->second.size, piece->first});
    piece = pieces_.erase(piece);
  }
}

bool SegmentHeap::map_segment(int64_t bytes) {
  const int64_t size = bytes >= kOwn ? round_up(bytes, kHuge) : kSegment;
  char* segment = map_huge(size);
  if (segment == nullptr) {
    return false;
  }
  pieces_.insert({segment, {size, false, true}});
  free_.insert({size, segment});
  reserved_ += size;
  return true;
}

/// Keeps the first `size` bytes of a free piece in it; the rest becomes a piece of its own.
void SegmentHeap::cut(Pieces::iterator piece, int64_t size) {
  const int64_t rest = piece->second.size - size;
  if (rest == 0) {
    return;
  }
  free_.erase({piece->second.size, piece->first});
  piece->second.size = size;
  free_.insert({size, piece->first});
  pieces_.insert(std::next(piece), {piece->first + size, {rest, false, false}});
  free_.insert({rest, piece->first + size});
}

/// Joins a free piece with the one behind it, where that is free and of the same segment.
void SegmentHeap::join_next(Pieces::iterator piece) {
  const auto next = std::next(piece);
  if (next == pieces_.end() || next->second.used || next->second.first) {
    return;
  }
  free_.erase({piece->second.size, piece->first});
  free_.erase({next->second.size, next->first});
  piece->second.size += next->second.size;
  pieces_.erase(next);
  free_.insert({piece->second.size, piece->first});
}

bool SegmentHeap::whole_segment(Pieces::const_iterator piece) const {
  const auto next = std::next(piece);
  return piece->second.first && !piece->second.used &&
         (next == pieces_.end() || next->second.first);
}

}  // namespace heed
