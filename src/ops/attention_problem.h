#pragma once

#include <array>
#include <functional>
#include <vector>

#include "heed/attention.h"
#include "heed/tensor.h"
#include "kernels/attention.h"
#include "kernels/gemm.h"

namespace heed {

/// Shapes of one attention call, checked.
struct AttentionShape {
  int64_t batch = 0;
  int64_t heads = 0;
  int64_t num_kv_heads = 0;
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t depth = 0;
  int64_t value_depth = 0;

  Shape scores() const { return {batch, heads, queries, keys}; }
  Shape rows() const { return {batch, heads, queries}; }
  Shape output() const { return {batch, heads, queries, value_depth}; }
};

/// Checks everything a caller can get wrong; throws Error naming the shapes.
AttentionShape check_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                               const AttentionOptions& options);

/// Query i sees the keys i + first … i + last, and those before prefix.
struct VisibleRange {
  int64_t first = -kernels::kUnlimited;
  int64_t last = kernels::kUnlimited;
  int64_t prefix = 0;
};
VisibleRange visible_range(const PositionMask& position);

double attention_scale(const AttentionShape& shape, const AttentionOptions& options);

/// The tensor with contiguous columns: itself where its last axis has stride 1.
Tensor with_contiguous_columns(const Tensor& x);

/// A fresh [B, H, T, D] tensor laid out in memory as [B, T, H, D], so that merging the heads is
/// free.
Tensor empty_heads(const Shape& shape, DType type);

/// Memory for the gradients of q, k and v: side by side where q, k and v are parts of one
/// projection, so that nobody has to join them; else each for itself.
std::array<Tensor, 3> empty_gradients(const Tensor& q, const Tensor& k, const Tensor& v,
                                      DType type);

template <class T>
kernels::HeadsView<T> heads_view(const Tensor& x) {
  const Shape& strides = x.strides();
  return {static_cast<T*>(x.raw()), strides[0], strides[1], strides[2]};
}

/// A tensor broadcast over scores, aligned at the last axis.
template <class T>
kernels::ScoreView<T> score_view(const Tensor& x) {
  if (!x.defined()) {
    return {};
  }
  int64_t stride[4] = {0, 0, 0, 0};
  for (int axis = 0; axis < x.rank(); ++axis) {
    stride[4 - x.rank() + axis] = x.size(axis) == 1 ? 0 : x.strides()[axis];
  }
  return {static_cast<T*>(x.raw()), stride[0], stride[1], stride[2], stride[3]};
}

/// How keys and values of this type are stored, for the kernels.
kernels::Element stored_element(DType type);
/// Whether keys and values of a cache in `type` are read by f32 attention: f16, bf16 or q8_0.
bool is_cache_type(DType type);

/// The call on raw memory. q, k and v must have contiguous columns; `bias` the compute type. The
/// tensors must outlive the problem.
template <class T>
kernels::AttentionProblem<T> attention_problem(const AttentionShape& shape, const Tensor& q,
                                               const Tensor& k, const Tensor& v, const Tensor& bias,
                                               const AttentionOptions& options) {
  kernels::AttentionProblem<T> problem;
  problem.batch = shape.batch;
  problem.heads = shape.heads;
  problem.kv_heads = shape.num_kv_heads;
  problem.queries = shape.queries;
  problem.keys = shape.keys;
  problem.depth = shape.depth;
  problem.value_depth = shape.value_depth;
  problem.q = heads_view<const T>(q);
  problem.k = heads_view<const T>(k);
  problem.v = heads_view<const T>(v);
  problem.stored = stored_element(k.dtype());
  problem.keep = score_view<const uint8_t>(options.mask);
  if (options.key_padding.defined()) {
    const Shape& strides = options.key_padding.strides();
    problem.key_padding = {static_cast<const uint8_t*>(options.key_padding.raw()), strides[0], 0, 0,
                           strides[1]};
  }
  problem.bias = score_view<const kernels::Compute<T>>(bias);
  problem.scale = attention_scale(shape, options);
  problem.softcap = options.softcap;
  const VisibleRange range = visible_range(options.position);
  problem.first = range.first;
  problem.last = range.last;
  problem.prefix = range.prefix;
  return problem;
}

/// True where a score must not be read; broadcastable to the scores. Undefined: nowhere.
Tensor hidden_mask(const AttentionShape& shape, const AttentionOptions& options);

/// The bias in the type in which scores are computed; undefined where there is none.
Tensor compute_bias(const Tensor& bias, DType type);

/// The options of query rows [begin, end) alone, bias and all; a pattern stays as it is.
AttentionOptions for_rows(const AttentionOptions& options, int64_t begin, int64_t end);

/// A part of scores [B, Hq, Tq, Tk].
struct ScoreRange {
  int64_t batch_begin = 0, batch_end = 0;
  int64_t head_begin = 0, head_end = 0;
  int64_t row_begin = 0, row_end = 0;
  int64_t key_begin = 0, key_end = 0;

  Shape shape() const {
    return {batch_end - batch_begin, head_end - head_begin, row_end - row_begin,
            key_end - key_begin};
  }
};
/// The options of a part of the scores, with the pattern written out as mask and bias.
AttentionOptions for_range(const AttentionOptions& options, const ScoreRange& range);

/// compute(begin, end, inputs of these rows) for `chunk` queries at a time, one after the other.
/// Where there is more than one, what a chunk computes is not kept: the backward pass recomputes
/// it, so that no more than one chunk's scores exist at once.
Tensor in_query_chunks(const AttentionShape& shape, int64_t chunk, DType type,
                       const std::function<std::vector<Tensor>(int64_t begin, int64_t end)>& inputs,
                       const std::function<Tensor(int64_t begin, int64_t end,
                                                  const std::vector<Tensor>& inputs)>& compute);

/// While one of these lives, the observer of this thread sees nothing.
class UnobservedScope {
 public:
  UnobservedScope();
  ~UnobservedScope();
  UnobservedScope(const UnobservedScope&) = delete;
  UnobservedScope& operator=(const UnobservedScope&) = delete;

 private:
  Observer* before_;
};

/// Keeps the statistics of the rows of every attention while it is in scope, in which the outer
/// observer sees nothing.
class RowCollector final : public Observer {
 public:
  void attention(const std::string& name, const AttentionRecord& record) override;
  std::vector<Tensor> row_max, row_inverse;  ///< [B, Hq, Tq] each
};

/// Observer::adjust(); counts the attentions of this thread whose options it changed.
void adjust_by(Observer& observer, const std::string& place, AttentionOptions& options);
int64_t adjusted_attentions();

/// The flash kernel without history: output and each row's statistics.
struct FlashResult {
  Tensor output;
  Tensor row_max;
  Tensor row_inverse;
};
FlashResult flash_attention(const AttentionShape& shape, const Tensor& q, const Tensor& k,
                            const Tensor& v, const AttentionOptions& options, RandomKey random);

/// attention() by a pattern: some queries at a time, for which it is written out.
FlashResult pattern_attention(const AttentionShape& shape, const Tensor& q, const Tensor& k,
                              const Tensor& v, const AttentionOptions& options);

/// What an observer gets of an attention.
AttentionRecord record_of(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& output,
                          const AttentionOptions& options, const FlashResult& flash);

/// What the flash kernel's gradient reads again.
struct FlashSaved {
  FlashSaved(const Tensor& q, const Tensor& k, const Tensor& v, const FlashResult& result);
  Saved q, k, v, output, row_max, row_inverse;
};

/// Calls fn(a value of the type that the flash kernel's gradient reads) for operands stored as
/// `stored`: bf16 where the machine multiplies it, else f32 or f64.
template <class Fn>
auto in_gradient_type(DType stored, Fn&& fn) {
  if (stored == DType::f64) {
    return fn(double{});
  }
  return stored == DType::bf16 && kernels::uses_bf16_instructions() ? fn(BFloat16{}) : fn(float{});
}

/// The same in the type in which the gradient reads it: what is kept in f16 and bf16 may be widened
/// here.
struct FlashOperands {
  FlashOperands(const FlashSaved& saved, const Tensor& dy, DType type);
  Tensor q, k, v, output, dout;
};

/// The other two kernels, with their gradients from the ops they consist of.
Tensor reference_attention(const AttentionShape& shape, const Tensor& q, const Tensor& k,
                           const Tensor& v, const AttentionOptions& options, RandomKey random);
Tensor chunked_attention(const AttentionShape& shape, const Tensor& q, const Tensor& k,
                         const Tensor& v, const AttentionOptions& options, RandomKey random);

}  // namespace heed
