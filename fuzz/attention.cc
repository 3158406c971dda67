#include "heed/attention.h"

#include <cmath>
#include <cstdlib>

#include "fuzz/target.h"
#include "heed/ops.h"

namespace {

using heed::Tensor;

Tensor filled(heed::fuzz::Bytes& bytes, const heed::Shape& shape) {
  Tensor tensor = Tensor::empty(shape);
  float* values = tensor.data<float>();
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    values[i] = bytes.value();
  }
  return tensor;
}

}  // namespace

/// Differential: flash and chunked attention against the reference over random shapes and options.
HEED_FUZZ_TARGET(attention) {
  using namespace heed;
  fuzz::Bytes bytes(input);
  const int64_t batch = bytes.between(1, 2);
  const int64_t kv_heads = bytes.between(1, 3);
  const int64_t heads = kv_heads * bytes.between(1, 3);
  const int64_t queries = bytes.between(1, 70);
  const int64_t keys = bytes.between(1, 70);
  const int64_t head_dim = bytes.between(1, 40);
  const int64_t value_dim = bytes.between(1, 40);
  AttentionOptions options;
  switch (bytes.between(0, 2)) {
    case 1:
      options.position = Causal{bytes.between(-3, keys)};
      break;
    case 2:
      options.position = Window{bytes.between(-1, 20), bytes.between(-1, 20),
                                bytes.between(-3, keys), bytes.between(0, 4)};
      break;
    default:
      break;
  }
  options.softcap = bytes.between(0, 3) == 0 ? 20.0 : 0.0;
  if (bytes.between(0, 2) == 0) {
    Tensor padding = Tensor::empty({batch, keys}, DType::u8);
    for (int64_t i = 0; i < padding.numel(); ++i) {
      padding.data<uint8_t>()[i] = bytes.byte() & 1;
    }
    options.key_padding = padding;
  }
  if (bytes.between(0, 2) == 0) {
    options.bias = filled(bytes, {1, heads, queries, keys});
  }
  const Tensor q = filled(bytes, {batch, heads, queries, head_dim});
  const Tensor k = filled(bytes, {batch, kv_heads, keys, head_dim});
  const Tensor v = filled(bytes, {batch, kv_heads, keys, value_dim});
  options.kernel = AttentionKernel::reference;
  const Tensor wanted = attention(q, k, v, options).contiguous();
  for (const AttentionKernel kernel : {AttentionKernel::flash, AttentionKernel::chunked}) {
    options.kernel = kernel;
    options.chunk = bytes.between(1, 40);
    const Tensor got = attention(q, k, v, options).contiguous();  // heads may lie inside of rows
    // Weights sum to at most 1, so the largest value bounds the result; scores of up to 1e10 leave
    // a relative error in the exponent.
    float largest = 1.0f;
    float largest_score = 1.0f;
    for (int64_t i = 0; i < v.numel(); ++i) {
      largest = std::max(largest, std::abs(v.data<float>()[i]));
    }
    float q_largest = 0.0f, k_largest = 0.0f;
    for (int64_t i = 0; i < q.numel(); ++i) {
      q_largest = std::max(q_largest, std::abs(q.data<float>()[i]));
    }
    for (int64_t i = 0; i < k.numel(); ++i) {
      k_largest = std::max(k_largest, std::abs(k.data<float>()[i]));
    }
    largest_score = std::max(1.0f, q_largest * k_largest * std::sqrt(static_cast<float>(head_dim)));
    const float allowed = largest * 1e-6f * (8.0f + largest_score);
    for (int64_t i = 0; i < wanted.numel(); ++i) {
      if (!(std::abs(got.data<float>()[i] - wanted.data<float>()[i]) <= allowed)) {
        std::abort();
      }
    }
  }
}
