#include "base/check.h"
#include "heed/nn.h"
#include "heed/ops.h"

namespace heed {
namespace {

/// One part of a block: what comes between the residual stream and itself.
struct Part {
  const Norm& norm;
  const Norm& post_norm;
  const Tensor& scale;  ///< LayerScale's factors
  double dropout;
  const char* norm_hook;
  const char* out_hook;
};

/// 16-bit rows widened; others as they are.
Tensor in_f32(const Tensor& x) {
  const bool narrow = x.dtype() == DType::f16 || x.dtype() == DType::bf16;
  return narrow ? cast(x, DType::f32) : x;
}

Tensor normed(const Norm& norm, const char* hook, const Tensor& x) {
  return norm.defined() ? observe(hook, norm(x)) : x;
}

/// run(residual) with the residual fused into the last product where nothing comes between.
template <class Run>
Tensor with_residual(const Tensor& residual, const Part& part, double scale, const Pass& pass,
                     const Run& run) {
  Observer* observer = Observer::current();
  const bool shown = observer != nullptr && observer->wants(HookScope::path(part.out_hook));
  const bool fuse = (part.dropout == 0.0 || !pass.training) && !shown &&
                    !part.post_norm.defined() && !part.scale.defined() && scale == 1.0;
  if (fuse) {
    return run(residual);
  }
  Tensor y = run(Tensor());
  if (part.post_norm.defined()) {
    y = part.post_norm(y);
  }
  if (part.scale.defined()) {
    y = mul(y, cast(part.scale, y.dtype()));
  }
  y = pass.dropout(observe(part.out_hook, y), part.dropout);
  return add(residual, scale == 1.0 ? y : mul(y, scale));
}

}  // namespace

Tensor Block::operator()(const Tensor& rows, const Pass& pass, int64_t layer) const {
  const Parts& p = parts_;
  const Norm none;
  const Tensor unscaled;
  const Part attention{p.attention_norm,      p.attention_post_norm,
                       p.attention_scale,     p.attention_dropout.value_or(p.dropout),
                       "ln1.hook_normalized", "hook_attn_out"};
  const Part cross{p.cross_norm,         none, unscaled, p.dropout, "ln_cross.hook_normalized",
                   "hook_cross_attn_out"};
  const Part feed_forward{p.feed_forward_norm, p.feed_forward_post_norm, p.feed_forward_scale,
                          p.dropout,           "ln2.hook_normalized",    "hook_mlp_out"};
  Tensor x = observe("hook_resid_pre", rows);
  const auto step = [&](const Part& part, const Tensor& input, const auto& run) {
    const Tensor y = with_residual(x, part, p.residual_scale, pass,
                                   [&](const Tensor& residual) { return run(input, residual); });
    x = p.pre_norm ? y : normed(part.norm, part.norm_hook, y);
  };
  const auto read = [&](const Part& part) {
    return p.pre_norm ? normed(part.norm, part.norm_hook, x) : x;
  };
  // Parallel parts read the same rows; where the second has no norm of its own, they share one.
  const Tensor first = read(attention);
  const Tensor second = !p.parallel                   ? Tensor()
                        : feed_forward.norm.defined() ? read(feed_forward)
                                                      : first;
  step(attention, first, [&](const Tensor& input, const Tensor& residual) {
    if (p.mixer) {  // its own arithmetic (an inverse, a table of distances) is made for f32
      const Tensor mixed = cast(p.mixer(in_f32(input), pass, layer), input.dtype());
      return residual.defined() ? add(residual, mixed) : mixed;
    }
    return p.attention(input, pass, layer, residual);
  });
  x = observe("hook_resid_mid", x);
  if (p.has_cross) {
    step(cross, read(cross), [&](const Tensor& input, const Tensor& residual) {
      return p.cross.cross(input, pass, layer, residual);
    });
  }
  step(feed_forward, p.parallel ? second : read(feed_forward),
       [&](const Tensor& input, const Tensor& residual) {
         return p.feed_forward(input, pass, residual);
       });
  if (p.finish) {
    x = cast(p.finish(in_f32(rows), in_f32(x), pass), rows.dtype());
  }
  return observe("hook_resid_post", x);
}

namespace {

/// The block's result without what it computed on the way; backward() runs it again.
Tensor run_checkpointed(const Block& block, const Tensor& rows, const Pass& pass, int64_t layer) {
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
  // Generation is bound by reading weights.
  const bool reduced =
      activation_type() != DType::f32 && outside == DType::f32 && given.caches.empty();
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
      rows = run_checkpointed(blocks[i], rows, pass, layer);
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
