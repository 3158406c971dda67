#include "base/check.h"
#include "heed/nn.h"
#include "heed/precision.h"

namespace heed {
namespace {

/// part(x, residual) with the residual fused into the last product where nothing comes between.
template <class Part>
Tensor with_residual(const Tensor& residual, double dropout_rate, const Pass& pass,
                     const char* hook, const Part& part) {
  const bool fuse = (dropout_rate == 0.0 || !pass.training) && Observer::current() == nullptr;
  if (fuse) {
    return part(residual);
  }
  return add(residual, pass.dropout(observe(hook, part(Tensor())), dropout_rate));
}

}  // namespace

Tensor Block::operator()(const Tensor& rows, const Pass& pass, int64_t layer) const {
  const Parts& p = parts_;
  Tensor x = observe("hook_resid_pre", rows);
  auto step = [&](const Norm& norm, double rate, const char* norm_hook, const char* out_hook,
                  auto&& part) {
    const Tensor input = p.pre_norm ? observe(norm_hook, norm(x)) : x;
    Tensor y = with_residual(x, rate, pass, out_hook,
                             [&](const Tensor& residual) { return part(input, residual); });
    x = p.pre_norm ? y : observe(norm_hook, norm(y));
  };
  step(p.attention_norm, p.attention_dropout.value_or(p.dropout), "ln1.hook_normalized",
       "hook_attn_out", [&](const Tensor& input, const Tensor& residual) {
         return p.attention(input, pass, layer, residual);
       });
  x = observe("hook_resid_mid", x);
  if (p.has_cross) {
    step(p.cross_norm, p.dropout, "ln_cross.hook_normalized", "hook_cross_attn_out",
         [&](const Tensor& input, const Tensor& residual) {
           return p.cross.cross(input, pass, layer, residual);
         });
  }
  step(p.feed_forward_norm, p.dropout, "ln2.hook_normalized", "hook_mlp_out",
       [&](const Tensor& input, const Tensor& residual) {
         return p.feed_forward(input, pass, residual);
       });
  return observe("hook_resid_post", x);
}

namespace {

/// The block's result without what it computed on the way; backward() runs it again.
Tensor run_later_again(const Block& block, const Tensor& rows, const Pass& pass, int64_t layer) {
  std::vector<Tensor> inputs{rows};
  if (pass.encoder_hidden_states != nullptr) {
    inputs.push_back(*pass.encoder_hidden_states);
  }
  if (pass.bias.defined()) {
    inputs.push_back(pass.bias);
  }
  // backward() comes after forward() is gone: the closure holds a memory layout of its own.
  const Layout memory_layout = pass.encoder_layout != nullptr ? *pass.encoder_layout : Layout();
  return checkpoint(
      [&block, pass, layer, memory_layout](const std::vector<Tensor>& again) {
        Pass inner = pass;
        size_t next = 1;
        if (pass.encoder_hidden_states != nullptr) {
          inner.encoder_hidden_states = &again[next++];
          inner.encoder_layout = &memory_layout;
        }
        if (pass.bias.defined()) {
          inner.bias = again[next++];
        }
        return block(again[0], inner, layer);
      },
      std::move(inputs));
}

}  // namespace

Tensor run_blocks(const std::vector<Block>& blocks, Tensor rows, const Pass& given, bool recompute,
                  const std::function<void(int64_t, const Tensor&)>& after) {
  const DType outside = rows.dtype();
  const bool reduced = activation_type() != DType::f32 && outside == DType::f32;
  Pass pass = given;
  Tensor memory_inside;
  if (reduced) {
    rows = cast(rows, activation_type());
    if (pass.encoder_hidden_states != nullptr) {
      memory_inside = cast(*pass.encoder_hidden_states, activation_type());
      pass.encoder_hidden_states = &memory_inside;
    }
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto layer = static_cast<int64_t>(i);
    const HookScope hook_scope("blocks", layer);
    if (recompute && grad_enabled()) {
      rows = run_later_again(blocks[i], rows, pass, layer);
    } else if (pass.encoder_hidden_states != nullptr && grad_enabled()) {
      // A view of the memory for each block: its gradients are summed block by block, in the order
      // in which recomputation sums them.
      const Tensor memory =
          reshape(*pass.encoder_hidden_states, pass.encoder_hidden_states->shape());
      Pass inner = pass;
      inner.encoder_hidden_states = &memory;
      rows = blocks[i](rows, inner, layer);
    } else {
      rows = blocks[i](rows, pass, layer);
    }
    if (after) {
      after(layer, rows);
    }
  }
  return reduced ? cast(rows, outside) : rows;
}

}  // namespace heed
