#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/prefetch.h"

namespace heed::kernels {

/// The order in which a thread multiplies by its weights. While a model decodes it is the same in
/// every step: between two products, when one thread normalises or attends, the others can fetch
/// the weights that come next.
class WeightOrder {
 public:
  void pass(const void* weights, int64_t bytes) {
    const Piece piece{weights, std::min(bytes, kMostBytes)};
    if (before_ != nullptr) {
      *before_ = piece;
    }
    Entry& entry = entries_[reinterpret_cast<uintptr_t>(weights) / 4096 % kEntries];
    if (entry.weights != weights) {
      entry = {weights, {}};
    }
    before_ = &entry.next;
    prefetch_while_idle(entry.next.data, entry.next.bytes);
  }

 private:
  static constexpr size_t kEntries = 1024;
  static constexpr int64_t kMostBytes = 384 * 1024;  // beside what a thread works with in L2
  struct Piece {
    const void* data = nullptr;
    int64_t bytes = 0;
  };
  struct Entry {
    const void* weights = nullptr;
    Piece next;
  };
  Entry entries_[kEntries];
  Piece* before_ = nullptr;
};

}  // namespace heed::kernels
