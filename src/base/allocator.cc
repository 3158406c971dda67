#include "base/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include "heed/memory.h"

namespace heed {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kHuge = int64_t{2} << 20;
constexpr int64_t kMapped = int64_t{1} << 20;  // from here on blocks come from mmap

/// Rounds up to one of eight steps between powers of two: at most 12.5 % is lost.
int64_t size_class(int64_t bytes) {
  if (bytes <= kAlignment) {
    return kAlignment;
  }
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes)));
  const int64_t step = std::max(power / 8, kAlignment);
  return (bytes + step - 1) / step * step;
}

void* map_huge(int64_t bytes) {
  // Over-map by one huge page and cut the ends, so that the block starts on a 2 MiB boundary.
  const int64_t padded = bytes + kHuge;
  void* raw = mmap(nullptr, static_cast<size_t>(padded), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) {
    return nullptr;
  }
  const auto address = reinterpret_cast<int64_t>(raw);
  const int64_t begin = (address + kHuge - 1) / kHuge * kHuge;
  if (begin > address) {
    munmap(raw, static_cast<size_t>(begin - address));
  }
  const int64_t tail = address + padded - (begin + bytes);
  if (tail > 0) {
    munmap(reinterpret_cast<void*>(begin + bytes), static_cast<size_t>(tail));
  }
  auto* block = reinterpret_cast<void*>(begin);
  madvise(block, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return block;
}

class Cache {
 public:
  static Cache& instance() {
    static Cache* cache = new Cache;  // never destroyed: tensors may outlive static destruction
    return *cache;
  }

  void* take(int64_t bytes) {
    const int64_t size = rounded(bytes);
    {
      std::lock_guard lock(mutex_);
      stats_.in_use += size;
      stats_.peak = std::max(stats_.peak, stats_.in_use);
      auto& kept = free_[size];
      if (!kept.empty()) {
        void* block = kept.back();
        kept.pop_back();
        return block;
      }
      stats_.reserved += size;
    }
    void* block = fresh(size);
    if (block == nullptr) {
      release();
      block = fresh(size);
    }
    if (block == nullptr) {
      std::lock_guard lock(mutex_);
      stats_.in_use -= size;
      stats_.reserved -= size;
      throw std::bad_alloc();
    }
    return block;
  }

  void give(void* block, int64_t bytes) {
    const int64_t size = rounded(bytes);
    std::lock_guard lock(mutex_);
    stats_.in_use -= size;
    free_[size].push_back(block);
  }

  void release() {
    std::lock_guard lock(mutex_);
    for (auto& [size, blocks] : free_) {
      for (void* block : blocks) {
        if (size >= kMapped) {
          munmap(block, static_cast<size_t>(size));
        } else {
          std::free(block);
        }
        stats_.reserved -= size;
      }
      blocks.clear();
    }
  }

  MemoryStats stats() {
    std::lock_guard lock(mutex_);
    return stats_;
  }
  void reset_peak() {
    std::lock_guard lock(mutex_);
    stats_.peak = stats_.in_use;
  }

 private:
  static int64_t rounded(int64_t bytes) {
    const int64_t size = size_class(bytes);
    return size >= kMapped ? (size + 4095) / 4096 * 4096 : size;
  }
  static void* fresh(int64_t size) {
    return size >= kMapped
               ? map_huge(size)
               : std::aligned_alloc(static_cast<size_t>(kAlignment), static_cast<size_t>(size));
  }

  std::mutex mutex_;
  std::unordered_map<int64_t, std::vector<void*>> free_;
  MemoryStats stats_;
};

}  // namespace

void* allocate_block(int64_t bytes) { return Cache::instance().take(bytes); }
void free_block(void* block, int64_t bytes) { Cache::instance().give(block, bytes); }

MemoryStats memory_stats() { return Cache::instance().stats(); }
void reset_peak_memory() { Cache::instance().reset_peak(); }
void release_cached_memory() { Cache::instance().release(); }

}  // namespace heed
