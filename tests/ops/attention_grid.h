#pragma once

#include <string>
#include <utility>
#include <vector>

#include "heed/attention.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "support/check.h"

/// Inputs and options that tests of attention() share.
namespace heed::attention_grid {

using test::random_normal;

inline Tensor random_keep(const Shape& shape, uint64_t seed) {
  return test::random_uniform(shape, 0, 1, DType::f32, seed).numel() == 0
             ? Tensor::zeros(shape, DType::u8)
             : test::random_indices(shape, 4, seed).to(DType::boolean);
}

struct Inputs {
  Tensor q, k, v;
};
struct InputSizes {
  int64_t batch, heads, num_kv_heads, queries, keys, depth, value_depth;
};
inline Inputs make_inputs(const InputSizes& n, DType type = DType::f32) {
  return {random_normal({n.batch, n.heads, n.queries, n.depth}, type, 1),
          random_normal({n.batch, n.num_kv_heads, n.keys, n.depth}, type, 2),
          random_normal({n.batch, n.num_kv_heads, n.keys, n.value_depth}, type, 3)};
}

/// Output and gradients of one kernel.
inline std::vector<Tensor> run(const Inputs& inputs, AttentionOptions options,
                               AttentionKernel kernel) {
  manual_seed(7);
  options.kernel = kernel;
  options.chunk = 50;
  Tensor q = inputs.q.clone().set_requires_grad(true);
  Tensor k = inputs.k.clone().set_requires_grad(true);
  Tensor v = inputs.v.clone().set_requires_grad(true);
  const bool biased = options.bias.defined();
  if (biased) {
    options.bias = options.bias.clone().set_requires_grad(true);
  }
  const Tensor y = attention(q, k, v, options);
  backward(y, random_normal(y.shape(), y.dtype(), 9));
  std::vector<Tensor> results{y, q.grad(), k.grad(), v.grad()};
  if (biased) {
    results.push_back(options.bias.grad());
  }
  return results;
}

inline std::vector<std::pair<std::string, AttentionOptions>> option_grid(int64_t batch,
                                                                         int64_t heads,
                                                                         int64_t queries,
                                                                         int64_t keys, DType type) {
  std::vector<std::pair<std::string, AttentionOptions>> grid;
  const auto add = [&](const std::string& name, auto&& set) {
    AttentionOptions options;
    set(options);
    grid.emplace_back(name, options);
  };
  add("plain", [](auto&) {});
  add("causal", [](auto& o) { o.position = Causal{}; });
  add("bottom-right", [&](auto& o) { o.position = Causal{keys - queries}; });
  add("window", [](auto& o) { o.position = Window{5, 3, 1, 0}; });
  add("window with prefix", [](auto& o) { o.position = Window{3, 0, 0, 2}; });
  add("mask", [&](auto& o) { o.mask = random_keep({batch, heads, queries, keys}, 4); });
  add("keep per key", [&](auto& o) { o.mask = random_keep({batch, 1, 1, keys}, 5); });
  add("padding", [&](auto& o) { o.key_padding = random_keep({batch, keys}, 6); });
  add("bias", [&](auto& o) { o.bias = random_normal({batch, heads, queries, keys}, type, 7); });
  add("shared bias", [&](auto& o) { o.bias = random_normal({heads, queries, keys}, type, 8); });
  add("bias of all heads", [&](auto& o) { o.bias = random_normal({queries, keys}, type, 8); });
  add("bias per key", [&](auto& o) { o.bias = random_normal({1, heads, 1, keys}, type, 8); });
  add("scale", [](auto& o) { o.scale = -0.7; });
  add("soft-cap", [](auto& o) { o.softcap = 1.5; });
  add("dropout", [](auto& o) {
    o.dropout = 0.3;
    o.training = true;
  });
  add("everything", [&](auto& o) {
    o.position = Window{40, 2, keys - queries, 0};
    o.mask = random_keep({batch, 1, queries, keys}, 4);
    o.key_padding = random_keep({batch, keys}, 6);
    o.bias = random_normal({heads, queries, keys}, type, 8);
    o.softcap = 2.0;
    o.scale = 0.5;
    o.dropout = 0.2;
    o.training = true;
  });
  return grid;
}

}  // namespace heed::attention_grid
