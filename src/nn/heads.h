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

/// Whether an observer asks for weights over all keys, as one matrix.
inline bool shows_whole_map(const char* name = "hook_whole_map") {
  Observer* observer = Observer::current();
  return observer != nullptr && observer->wants(HookScope::path(name));
}

/// The inputs of an attention over all pairs of positions, whose pattern says which of them count.
struct PatternInputs {
  Tensor q, k, v;
  AttentionOptions options;
  Tensor global_rows = {}, global_v = {};  ///< as in AttentionRecord
};

/// Attention that is computed by `sparse`, in time that does not grow with the square of the
/// length, is shown to the observer in scope as one matrix of weights, which `whole` describes.
/// sparse() gives the output and the statistics of every row, from which any part of the weights is
/// computed when it is asked for. Where the observer changes the options, adjusted(options) has the
/// output instead.
template <class Sparse, class Adjusted>
Tensor shown_by_pattern(const PatternInputs& whole, const Sparse& sparse,
                        const Adjusted& adjusted) {
  Observer* observer = Observer::current();
  const std::string place = HookScope::path();
  AttentionOptions options = whole.options;
  const int64_t before = adjusted_attentions();
  adjust_by(*observer, place, options);
  FlashResult result;
  if (adjusted_attentions() == before) {
    result = sparse();
  } else {
    const UnobservedScope unobserved;
    result = adjusted(options);
  }
  AttentionRecord record = record_of(whole.q, whole.k, whole.v, result.output, options, result);
  record.global_rows = whole.global_rows;
  record.global_v = whole.global_v;
  observer->attention(place, record);
  return result.output;
}

/// attention() of such inputs with other options, for observers that changed them.
inline FlashResult attend_by_pattern(const PatternInputs& whole, const AttentionOptions& options) {
  RowCollector rows;
  const Tensor output = attention(whole.q, whole.k, whole.v, options);
  return {output, rows.row_max.front(), rows.row_inverse.front()};
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
