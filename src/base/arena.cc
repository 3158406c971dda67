#include "base/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace heed {
namespace {

constexpr int64_t kHuge = int64_t{2} << 20;
constexpr int64_t kSegment = int64_t{64} << 20;  // asked of the system at a time, where it has it

/// Memory on a 2 MiB boundary: over-maps by one huge page and cuts the ends.
char* map_huge(int64_t bytes) {
  void* raw = mmap(nullptr, static_cast<size_t>(bytes + kHuge), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) {
    return nullptr;
  }
  const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(raw) % kHuge);
  const int64_t head = past == 0 ? 0 : kHuge - past;
  char* begin = static_cast<char*>(raw) + head;
  if (head > 0) {
    munmap(raw, static_cast<size_t>(head));
  }
  munmap(begin + bytes, static_cast<size_t>(kHuge - head));
  madvise(begin, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return begin;
}

}  // namespace

void* Arena::take(int64_t bytes) {
  auto found = by_size_.lower_bound({bytes, nullptr});
  if (found == by_size_.end()) {
    if (!grow(bytes)) {
      return nullptr;
    }
    found = by_size_.lower_bound({bytes, nullptr});
    if (found == by_size_.end()) {
      return nullptr;
    }
  }
  const auto [size, begin] = *found;
  drop_range(by_address_.find(begin));
  if (size > bytes) {
    add_range(begin + bytes, size - bytes);
  }
  return begin;
}

void Arena::give(void* block, int64_t bytes) {
  auto* begin = static_cast<char*>(block);
  const auto after = by_address_.lower_bound(begin);
  if (after != by_address_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == begin) {
      begin = before->first;
      bytes += before->second;
      drop_range(before);
    }
  }
  if (after != by_address_.end() && begin + bytes == after->first) {
    bytes += after->second;
    drop_range(after);
  }
  add_range(begin, bytes);
}

void Arena::release() {
  for (const auto& [begin, bytes] : by_address_) {
    munmap(begin, static_cast<size_t>(bytes));
    mapped_ -= bytes;
  }
  by_address_.clear();
  by_size_.clear();
}

/// A free range of at least `bytes` more.
bool Arena::grow(int64_t bytes) {
  for (const int64_t size : {std::max((bytes + kHuge - 1) / kHuge * kHuge, kSegment), bytes}) {
    if (char* segment = map_huge(size); segment != nullptr) {
      mapped_ += size;
      give(segment, size);
      return true;
    }
  }
  return false;
}

/// Destructors come here: where there is no memory to note a range, the system gets it back.
void Arena::add_range(char* begin, int64_t bytes) {
  try {
    by_size_.emplace(bytes, begin);
    by_address_.emplace(begin, bytes);
  } catch (const std::bad_alloc&) {
    by_size_.erase({bytes, begin});
    munmap(begin, static_cast<size_t>(bytes));
    mapped_ -= bytes;
  }
}

void Arena::drop_range(std::map<char*, int64_t>::iterator range) {
  by_size_.erase({range->second, range->first});
  by_address_.erase(range);
}

}  // namespace heed
