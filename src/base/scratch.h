#pragma once

#include <cstdint>

#include "base/allocator.h"

namespace heed {

/// Working memory of a kernel: a block of the caching allocator for the length of a scope.
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t count)
      : bytes_(count * static_cast<int64_t>(sizeof(T))),
        data_(static_cast<T*>(allocate_block(bytes_))) {}
  ~Scratch() { free_block(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* data() const { return data_; }

 private:
  int64_t bytes_;
  T* data_;
};

}  // namespace heed
