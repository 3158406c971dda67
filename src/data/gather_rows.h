#pragma once

#include <cstdint>
#include <vector>

#include "heed/tensor.h"

namespace heed {

/// Rows `examples[begin]` … `examples[end - 1]` of a contiguous f32 tensor [N, …], copied together.
Tensor gather_rows(const Tensor& from, const std::vector<int64_t>& examples, int64_t begin,
                   int64_t end);

/// Of the bytes of a contiguous tensor.
uint64_t fingerprint_of_tensor(const Tensor& tensor);

}  // namespace heed
