#include <cmath>

#include "base/check.h"
#include "heed/inspect.h"

namespace heed {
namespace {

void check_sizes(const char* op, int64_t length, int64_t width) {
  check(length > 0 && width > 0, op, "length {} and width {} must be positive", length, width);
}

}  // namespace

double attention_matrix_bytes(int64_t length, DType type, int64_t heads, int64_t batch) {
  check(length >= 0 && heads > 0 && batch > 0, "attention_matrix_bytes",
        "length {}, {} heads, batch {}", length, heads, batch);
  const auto side = static_cast<double>(length);
  return side * side * static_cast<double>(bytes_of(type, 32)) / 32 * static_cast<double>(heads) *
         static_cast<double>(batch);
}

// The figures of "Attention is all you need", table 1, as counts: a product of a row with a
// width × width matrix is width² multiplications.
LayerCost recurrent_cost(int64_t length, int64_t width) {
  check_sizes("recurrent_cost", length, width);
  const auto n = static_cast<double>(length);
  const auto d = static_cast<double>(width);
  return {n * d * d, n, n};
}

LayerCost convolution_cost(int64_t length, int64_t width, int64_t kernel) {
  check_sizes("convolution_cost", length, width);
  check(kernel > 1, "convolution_cost", "kernel {} must be 2 or more", kernel);
  const auto n = static_cast<double>(length);
  const auto d = static_cast<double>(width);
  const auto k = static_cast<double>(kernel);
  return {k * n * d * d, 1, std::ceil(std::log(n) / std::log(k))};
}

LayerCost self_attention_cost(int64_t length, int64_t width) {
  check_sizes("self_attention_cost", length, width);
  const auto n = static_cast<double>(length);
  const auto d = static_cast<double>(width);
  return {n * n * d, 1, 1};
}

}  // namespace heed
