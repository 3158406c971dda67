#include "base/check.h"
#include "heed/transformer.h"
#include "nn/heads.h"
#include "nn/longformer.h"

namespace heed {
namespace {

void check_width(const char* layer, int64_t width, int64_t heads) {
  check(heads > 0 && width % heads == 0, layer, "{} heads do not divide width {}", heads, width);
}

/// x [B, T, width] with `rows` rows of zeros behind.
Tensor pad_rows(const Tensor& x, int64_t rows) {
  return rows == 0 ? x : concat({x, Tensor::zeros({x.size(0), rows, x.size(2)}, x.dtype())}, 1);
}

}  // namespace

LongformerSelfAttention::LongformerSelfAttention(const Scope& scope, int64_t width, int64_t heads,
                                                 int64_t window, double dropout)
    : query_(scope / "query", width, width),
      key_(scope / "key", width, width),
      value_(scope / "value", width, width),
      query_global_(scope / "query_global", width, width),
      key_global_(scope / "key_global", width, width),
      value_global_(scope / "value_global", width, width),
      heads_(heads),
      window_(window),
      dropout_(dropout) {
  check_width("LongformerSelfAttention", width, heads);
}

Tensor LongformerSelfAttention::operator()(const Tensor& x, const Tensor& global_mask,
                                           const Tensor& key_padding, bool training) const {
  LongformerInputs in;
  in.q = split_heads(query_(x), heads_);
  in.k = split_heads(key_(x), heads_);
  in.v = split_heads(value_(x), heads_);
  in.global_mask = global_mask;
  in.key_padding = key_padding;
  in.window = window_;
  in.dropout = dropout_;
  in.training = training;
  return join_heads(longformer_attention(x, {query_global_, key_global_, value_global_}, in));
}

BigBirdSelfAttention::BigBirdSelfAttention(const Scope& scope, int64_t width,
                                           const Options& options)
    : query_(scope / "query", width, width),
      key_(scope / "key", width, width),
      value_(scope / "value", width, width),
      options_(options) {
  check_width("BigBirdSelfAttention", width, options.num_heads);
  check(options.block_size > 0 && options.random_blocks >= 0, "BigBirdSelfAttention",
        "blocks of {}, {} random ones", options.block_size, options.random_blocks);
}

Tensor BigBirdSelfAttention::operator()(const Tensor& x, const Tensor& key_padding,
                                        bool training) const {
  const int64_t length = x.size(1);
  const int64_t blocks = (length + options_.block_size - 1) / options_.block_size;
  const int64_t missing = blocks * options_.block_size - length;
  const Tensor padded = pad_rows(x, missing);
  BigBirdInputs in;
  in.q = split_heads(query_(padded), options_.num_heads);
  in.k = split_heads(key_(padded), options_.num_heads);
  in.v = split_heads(value_(padded), options_.num_heads);
  in.key_padding = key_padding;
  if (missing > 0) {
    const Tensor real = key_padding.defined() ? key_padding.to(DType::u8)
                                              : Tensor::full({x.size(0), length}, 1, DType::u8);
    in.key_padding = concat({real, Tensor::zeros({x.size(0), missing}, DType::u8)}, 1);
  }
  in.block_size = options_.block_size;
  if (blocks > 5 + 2 * options_.random_blocks) {
    in.random_blocks = bigbird_random_blocks(options_.num_heads, blocks, options_.random_blocks,
                                             {options_.seed, 0}, options_.hf_compat);
  }
  in.dropout = options_.dropout;
  in.training = training;
  const Tensor out = join_heads(bigbird_attention(in));
  return missing == 0 ? out : slice(out, 1, 0, length);
}

PerformerSelfAttention::PerformerSelfAttention(const Scope& scope, int64_t width, int64_t heads,
                                               int64_t features, bool causal, uint64_t seed)
    : query_(scope / "query", width, width),
      key_(scope / "key", width, width),
      value_(scope / "value", width, width),
      output_(scope / "output", width, width),
      heads_(heads),
      causal_(causal) {
  check_width("PerformerSelfAttention", width, heads);
  projection_ = performer_projection(features, width / heads, {seed, 0});
}

Tensor PerformerSelfAttention::operator()(const Tensor& x, const Tensor& key_padding) const {
  return output_(join_heads(
      performer_attention(split_heads(query_(x), heads_), split_heads(key_(x), heads_),
                          split_heads(value_(x), heads_), projection_, causal_, key_padding)));
}

}  // namespace heed
