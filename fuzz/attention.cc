#include "heed/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
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

float largest_of(const Tensor& tensor) {
  float largest = 0.0f;
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    largest = std::max(largest, std::abs(tensor.data<float>()[i]));
  }
  return largest;
}

struct Case {
  Tensor q, k, v;
  heed::AttentionOptions options;
};

Case random_case(heed::fuzz::Bytes& bytes) {
  using namespace heed;
  // One in eight is large enough for several blocks of the kernels; the others are quick.
  const bool large = bytes.between(0, 7) == 0;
  const int64_t most_positions = large ? 70 : 20;
  const int64_t most_features = large ? 40 : 12;
  const int64_t batch = bytes.between(1, 2);
  const int64_t kv_heads = bytes.between(1, 3);
  const int64_t heads = kv_heads * bytes.between(1, 3);
  const int64_t queries = bytes.between(1, most_positions);
  const int64_t keys = bytes.between(1, most_positions);
  const int64_t head_dim = bytes.between(1, most_features);
  const int64_t value_dim = bytes.between(1, most_features);
  Case made;
  switch (bytes.between(0, 2)) {
    case 1:
      made.options.position = Causal{bytes.between(-3, keys)};
      break;
    case 2:
      made.options.position = Window{bytes.between(-1, 20), bytes.between(-1, 20),
                                     bytes.between(-3, keys), bytes.between(0, 4)};
      break;
    default:
      break;
  }
  made.options.softcap = bytes.between(0, 3) == 0 ? 20.0 : 0.0;
  if (bytes.between(0, 2) == 0) {
    Tensor padding = Tensor::empty({batch, keys}, DType::u8);
    for (int64_t i = 0; i < padding.numel(); ++i) {
      padding.data<uint8_t>()[i] = bytes.byte() & 1;
    }
    made.options.key_padding = padding;
  }
  if (bytes.between(0, 2) == 0) {
    made.options.bias = filled(bytes, {1, heads, queries, keys});
  }
  made.q = filled(bytes, {batch, heads, queries, head_dim});
  made.k = filled(bytes, {batch, kv_heads, keys, head_dim});
  made.v = filled(bytes, {batch, kv_heads, keys, value_dim});
  return made;
}

/// By how much two results of f32 may differ. Weights sum to at most 1, so that the largest value
/// bounds the result; scores of up to 1e10, and biases of up to 1e4 on top of them, are rounded and
/// leave a relative error in the exponent.
float allowed_difference(const Case& made) {
  const float score =
      largest_of(made.q) * largest_of(made.k) * std::sqrt(static_cast<float>(made.q.size(3)));
  const float bias = made.options.bias.defined() ? largest_of(made.options.bias) : 0.0f;
  return std::max(1.0f, largest_of(made.v)) * 1e-6f * (8.0f + std::max(1.0f, score + bias));
}

}  // namespace

/// Differential: flash and chunked attention against the reference over random shapes and options.
HEED_FUZZ_TARGET(attention) {
  using namespace heed;
  fuzz::Bytes bytes(input);
  Case made = random_case(bytes);
  const float allowed = allowed_difference(made);
  made.options.kernel = AttentionKernel::reference;
  const Tensor wanted = attention(made.q, made.k, made.v, made.options).contiguous();
  for (const AttentionKernel kernel : {AttentionKernel::flash, AttentionKernel::chunked}) {
    made.options.kernel = kernel;
    made.options.chunk = bytes.between(1, 40);
    // Heads may lie inside of rows.
    const Tensor got = attention(made.q, made.k, made.v, made.options).contiguous();
    for (int64_t i = 0; i < wanted.numel(); ++i) {
      const auto found = static_cast<double>(got.data<float>()[i]);
      const auto expected = static_cast<double>(wanted.data<float>()[i]);
      if (!(std::abs(found - expected) <= static_cast<double>(allowed))) {
        std::fprintf(stderr, "kernel %d gives %g, the reference %g; %g apart is allowed\n",
                     static_cast<int>(kernel), found, expected, static_cast<double>(allowed));
        std::abort();
      }
    }
  }
}
