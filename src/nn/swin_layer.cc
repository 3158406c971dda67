#include <algorithm>

#include "base/check.h"
#include "heed/transformer.h"
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
  const Linear::Options plain{.init = options.init};
  const Linear::Options qkv{.bias = options.qkv_bias, .init = options.init};
  query_ = Linear(self / "query", width, width, qkv);
  key_ = Linear(self / "key", width, width, qkv);
  value_ = Linear(self / "value", width, width, qkv);
  bias_table_ = self.parameter("relative_position_bias_table", {span * span, options.num_heads},
                               Init::zeros());
  output_ = Linear(scope / "attention" / "output" / "dense", width, width, plain);
  up_ = Linear(scope / "intermediate" / "dense", width, inner, plain);
  down_ = Linear(scope / "output" / "dense", inner, width, plain);
}

Tensor SwinLayer::attend(const Tensor& x, int64_t height, int64_t width, const Pass& pass) const {
  const HookScope hook_scope("attn");
  const int64_t window = options_.window;
  SwinInputs in;
  in.height = up_to_multiple(height, window);
  in.width = up_to_multiple(width, window);
  in.window = window;
  in.shift = std::min(height, width) <= window ? 0 : options_.shift;
  const Tensor grid =
      pad_grid(reshape(x, {x.size(0), height, width, x.size(2)}), in.height, in.width);
  const Tensor places = reshape(grid, {x.size(0), in.height * in.width, x.size(2)});
  in.q = split_heads(observe("hook_q", query_(places)), options_.num_heads);
  in.k = split_heads(observe("hook_k", key_(places)), options_.num_heads);
  in.v = split_heads(observe("hook_v", value_(places)), options_.num_heads);
  in.bias_table = bias_table_;
  in.dropout = options_.dropout;
  in.training = pass.training;
  in.first_example = pass.first_example;
  const Tensor z = observe("hook_z", join_heads(swin_attention(in)));
  const Tensor out = reshape(output_(z), {x.size(0), in.height, in.width, x.size(2)});
  return reshape(slice(slice(out, 1, 0, height), 2, 0, width), x.shape());
}

Tensor SwinLayer::operator()(const Tensor& x, int64_t height, int64_t width, bool training) const {
  Pass pass;
  pass.training = training;
  return (*this)(x, height, width, pass);
}

Tensor SwinLayer::operator()(const Tensor& x, int64_t height, int64_t width,
                             const Pass& given) const {
  check(x.rank() == 3 && height > 0 && width > 0 && x.size(1) == height * width, "SwinLayer",
        "x {} is no grid of {} × {} places", x.shape(), height, width);
  Pass pass = given;
  pass.layout = Layout::equal(x.size(0), x.size(1));
  const auto dropped = [&](const Tensor& y) {
    const Tensor rows = reshape(y, {x.size(0) * x.size(1), x.size(2)});
    return reshape(pass.dropout(rows, options_.hidden_dropout), x.shape());
  };
  const Tensor first = observe("ln1.hook_normalized", before_(observe("hook_resid_pre", x)));
  const Tensor mixed = observe("hook_attn_out", attend(first, height, width, pass));
  const Tensor hidden = observe("hook_resid_mid", x + dropped(mixed));
  const Tensor second = observe("ln2.hook_normalized", after_(hidden));
  const auto feed_forward = [&] {
    const HookScope hook_scope("mlp");
    return down_(observe("hook_post", up_(second, options_.activation)));
  };
  const Tensor out = observe("hook_mlp_out", feed_forward());
  return observe("hook_resid_post", hidden + dropped(out));
}

}  // namespace heed
