#include "data/gather_rows.h"

#include <cstring>

#include "base/checksum.h"

namespace heed {

Tensor gather_rows(const Tensor& from, const std::vector<int64_t>& examples, int64_t begin,
                   int64_t end) {
  Shape shape = from.shape();
  shape[0] = end - begin;
  Tensor result = Tensor::empty(shape);
  const int64_t size = shape[0] == 0 ? 0 : result.numel() / shape[0];
  for (int64_t row = 0; row < shape[0]; ++row) {
    std::memcpy(result.data<float>() + row * size,
                from.data<float>() + examples[static_cast<size_t>(begin + row)] * size,
                static_cast<size_t>(size) * sizeof(float));
  }
  return result;
}

uint64_t fingerprint_of_tensor(const Tensor& tensor) {
  return fingerprint_of(tensor.raw(), static_cast<size_t>(tensor.bytes()), 0);
}

}  // namespace heed
