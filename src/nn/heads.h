#pragma once

#include "heed/attention.h"
#include "heed/ops.h"
#include "ops/attention_problem.h"

namespace heed {

/// [B, T, heads·D] -> [B, heads, T, D], a view.
inline Tensor split_heads(const Tensor& x, int64_t heads) {
  return transpose(reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads}), 1, 2);
}

/// [B, heads, T, D] -> [B, T, heads·D]
inline Tensor join_heads(const Tensor& x) {
  return reshape(transpose(x, 1, 2), {x.size(0), x.size(2), x.size(1) * x.size(3)});
}

/// Whether an observer asks for weights over all keys, as one matrix, and it is not too large.
inline bool shows_whole_map(int64_t length) {
  constexpr int64_t kLongest = 2048;
  Observer* observer = Observer::current();
  return observer != nullptr && length <= kLongest &&
         observer->wants(HookScope::path("hook_whole_map"));
}

/// For attention that is not computed as one matrix of weights: whole() computes it as one, for the
/// observer in scope to see, sparse() as ever. The result is that of sparse(), whose bits an
/// observer does not change; only where it changed the options of whole() is it that of whole().
template <class Whole, class Sparse>
Tensor shown_as_one(const Whole& whole, const Sparse& sparse) {
  const int64_t before = adjusted_attentions();
  Tensor shown = whole();
  if (adjusted_attentions() != before) {
    return shown;
  }
  const UnobservedScope unobserved;
  return sparse();
}

}  // namespace heed
