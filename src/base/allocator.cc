#include "base/allocator.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

#include "base/arena.h"
#include "heed/runtime.h"

namespace heed {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kLarge = int64_t{1} << 20;  // from here on blocks come from the arena
constexpr int64_t kPage = 4096;
constexpr int64_t kSpare = int64_t{16} << 20;  // free small blocks beyond the most ever used

/// Rounds up to one of eight steps between powers of two: at most 12.5 % is lost.
int64_t size_class(int64_t bytes) {
  if (bytes <= kAlignment) {
    return kAlignment;
  }
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes)));
  const int64_t step = std::max(power / 8, kAlignment);
  return (bytes + step - 1) / step * step;
}

class Cache {
 public:
  static Cache& instance() {
    static Cache* cache = new Cache;  // never destroyed: tensors may outlive static destruction
    return *cache;
  }

  void* take(int64_t bytes) {
    const int64_t size = rounded(bytes);
    std::lock_guard lock(mutex_);
    void* block = find(size);
    if (block == nullptr) {
      release_free();
      block = find(size);
    }
    if (block == nullptr) {
      throw std::bad_alloc();
    }
    in_use_ += size;
    peak_ = std::max(peak_, in_use_);
    return block;
  }

  void give(void* block, int64_t bytes) {
    const int64_t size = rounded(bytes);
    std::lock_guard lock(mutex_);
    in_use_ -= size;
    if (size >= kLarge) {
      large_.give(block, size);
    } else {  // destructors come here: nothing is allocated, take() made the list
      void*& kept = small_.find(size)->second;
      next_of(block) = kept;
      kept = block;
      small_free_ += size;
    }
  }

  void release() {
    std::lock_guard lock(mutex_);
    release_free();
  }

  MemoryStats stats() {
    std::lock_guard lock(mutex_);
    return {in_use_, peak_, small_bytes_ + large_.mapped()};
  }
  void reset_peak() {
    std::lock_guard lock(mutex_);
    peak_ = in_use_;
  }

  std::mutex& mutex() { return mutex_; }

 private:
  static int64_t rounded(int64_t bytes) {
    return bytes >= kLarge ? (bytes + kPage - 1) / kPage * kPage : size_class(bytes);
  }

  /// Blocks that are kept form a list through their first bytes.
  static void*& next_of(void* block) { return *static_cast<void**>(block); }

  /// A block kept for reuse or a new one; null where the system has no memory left.
  void* find(int64_t size) {
    if (size >= kLarge) {
      return large_.take(size);
    }
    void*& kept = small_[size];
    if (kept != nullptr) {
      small_free_ -= size;
      most_small_ = std::max(most_small_, small_bytes_ - small_free_);
      return std::exchange(kept, next_of(kept));
    }
    // More is kept than was ever used at once where the sizes change, as a server's do with the
    // lengths of its prompts: each size would keep the most that was ever used of it.
    if (small_bytes_ + size > most_small_ + kSpare) {
      release_small();
    }
    void* block = std::aligned_alloc(static_cast<size_t>(kAlignment), static_cast<size_t>(size));
    small_bytes_ += block != nullptr ? size : 0;
    most_small_ = std::max(most_small_, small_bytes_ - small_free_);
    return block;
  }

  void release_free() {
    large_.release();
    release_small();
  }

  void release_small() {
    small_free_ = 0;
    for (auto& [size, kept] : small_) {
      while (kept != nullptr) {
        std::free(std::exchange(kept, next_of(kept)));
        small_bytes_ -= size;
      }
    }
  }

  std::mutex mutex_;
  std::unordered_map<int64_t, void*> small_;  // kept for reuse: the first block of each size
  Arena large_;
  int64_t small_bytes_ = 0;  // in use or free
  int64_t small_free_ = 0;
  int64_t most_small_ = 0;  // in use at once, of small blocks
  int64_t in_use_ = 0;
  int64_t peak_ = 0;
};

}  // namespace

void* allocate_block(int64_t bytes) { return Cache::instance().take(bytes); }
void free_block(void* block, int64_t bytes) { Cache::instance().give(block, bytes); }
void lock_allocator() { Cache::instance().mutex().lock(); }
void unlock_allocator() { Cache::instance().mutex().unlock(); }

MemoryStats memory_stats() { return Cache::instance().stats(); }
void reset_peak_memory() { Cache::instance().reset_peak(); }
void release_cached_memory() { Cache::instance().release(); }

}  // namespace heed
