#include <algorithm>

#include "base/check.h"
#include "heed/attention_layers.h"
#include "nn/heads.h"

namespace heed {
namespace {

/// x [B, height, width, E] with zeros to the right and below.
Tensor pad_grid(const Tensor& x, int64_t height, int64_t width) {
  Tensor grid = x;
  if (width > grid.size(2)) {
    grid = concat(
        {grid, Tensor::zeros({grid.size(0), grid.size(1), width - grid.size(2), grid.size(3)},
                             grid.dtype())},
        2);
  }
  if (height > grid.size(1)) {
    grid = concat(
        {grid, Tensor::zeros({grid.size(0), height - grid.size(1), grid.size(2), grid.size(3)},
                             grid.dtype())},
        1);
  }
  return grid;
}

int64_t up_to_multiple(int64_t value, int64_t of) { return (value + of - 1) / of * of; }

}  // namespace

SwinLayer::SwinLayer(const Scope& scope, int64_t width, const Options& options)
    : before_(scope / "layernorm_before", width, options.eps),
      after_(scope / "layernorm_after", width, options.eps),
      options_(options) {
  check(options.num_heads > 0 && width % options.num_heads == 0, "SwinLayer",
        "{} heads do not divide width {}", options.num_heads, width);
  const Scope self = scope / "attention" / "self";
  const auto inner = static_cast<int64_t>(static_cast<double>(width) * options.mlp_ratio);
  const int64_t span = 2 * options.window - 1;
  query_ = Linear(self / "query", width, width);
  key_ = Linear(self / "key", width, width);
  value_ = Linear(self / "value", width, width);
  bias_table_ = self.parameter("relative_position_bias_table", {span * span, options.num_heads},
                               Init::zeros());
  output_ = Linear(scope / "attention" / "output" / "dense", width, width);
  up_ = Linear(scope / "intermediate" / "dense", width, inner);
  down_ = Linear(scope / "output" / "dense", inner, width);
}

Tensor SwinLayer::attend(const Tensor& x, int64_t height, int64_t width, bool training) const {
  const int64_t window = options_.window;
  SwinInputs in;
  in.height = up_to_multiple(height, window);
  in.width = up_to_multiple(width, window);
  in.window = window;
  in.shift = std::min(height, width) <= window ? 0 : options_.shift;
  const Tensor grid =
      pad_grid(reshape(x, {x.size(0), height, width, x.size(2)}), in.height, in.width);
  const Tensor places = reshape(grid, {x.size(0), in.height * in.width, x.size(2)});
  in.q = split_heads(query_(places), options_.num_heads);
  in.k = split_heads(key_(places), options_.num_heads);
  in.v = split_heads(value_(places), options_.num_heads);
  in.bias_table = bias_table_;
  in.dropout = options_.dropout;
  in.training = training;
  const Tensor out =
      reshape(output_(join_heads(swin_attention(in))), {x.size(0), in.height, in.width, x.size(2)});
  return reshape(slice(slice(out, 1, 0, height), 2, 0, width), x.shape());
}

Tensor SwinLayer::operator()(const Tensor& x, int64_t height, int64_t width, bool training) const {
  check(x.rank() == 3 && height > 0 && width > 0 && x.size(1) == height * width, "SwinLayer",
        "x {} is not a grid of {} × {} positions", x.shape(), height, width);
  const Tensor hidden = x + attend(before_(x), height, width, training);
  return down_(up_(after_(hidden), Activation::gelu), Activation::none, hidden);
}

}  // namespace heed
