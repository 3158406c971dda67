#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace heed::kernels {

/// Working memory of one thread for the tile it runs. Grows to the largest tile and stays, so that
/// a step after the first allocates nothing.
class ThreadScratch {
 public:
  ThreadScratch() = default;
  ~ThreadScratch() { std::free(block_); }
  ThreadScratch(const ThreadScratch&) = delete;
  ThreadScratch& operator=(const ThreadScratch&) = delete;

  /// `count` elements on a cache line; what they hold is not defined.
  template <class T>
  T* reserve(size_t count) {
    const size_t bytes = (count * sizeof(T) + 63) / 64 * 64;
    if (bytes > bytes_) {
      std::free(block_);
      bytes_ = 0;
      block_ = std::aligned_alloc(64, bytes);
      if (block_ == nullptr) {
        throw std::bad_alloc();
      }
      bytes_ = bytes;
    }
    return static_cast<T*>(block_);
  }

 private:
  void* block_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace heed::kernels
