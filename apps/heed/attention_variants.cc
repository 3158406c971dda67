#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "heed/attention_call.h"
#include "heed/ops.h"
#include "heed/transformer.h"

namespace heed::app {

Tensor AttentionTensors::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? Tensor() : found->second;
}

Tensor AttentionTensors::require(const std::string& name) const {
  Tensor tensor = find(name);
  check_data(tensor.defined(), file_, "has no tensor '{}'", name);
  return tensor;
}

Tensor AttentionTensors::leaf(const std::string& name) {
  Tensor tensor = require(name);
  check_data(is_floating(tensor.dtype()), file_, "'{}' is {}, wanted a floating type", name,
             name_of(tensor.dtype()));
  return leaves_[name] = tensor.detach().set_requires_grad(true);
}

Tensor AttentionTensors::optional_leaf(const std::string& name) {
  return find(name).defined() ? leaf(name) : Tensor();
}

bool is_causal(const AttentionCall& call) {
  return call.causal != "none" || call.causal_offset.has_value();
}

int64_t causal_offset(const AttentionCall& call, int64_t queries, int64_t keys) {
  if (call.causal_offset) {
    return static_cast<int64_t>(*call.causal_offset);
  }
  return call.causal == "bottom-right" ? keys - queries : 0;
}

AttentionOptions attention_options(const AttentionCall& call, AttentionTensors& tensors,
                                   int64_t queries, int64_t keys) {
  AttentionOptions options;
  options.scale = call.scale;
  options.softcap = call.softcap;
  options.chunk = call.chunk;
  options.key_padding = tensors.find("key_padding");
  if (call.kernel == "reference") {
    options.kernel = AttentionKernel::reference;
  } else if (call.kernel == "chunked") {
    options.kernel = AttentionKernel::chunked;
  } else if (call.kernel == "flash") {
    options.kernel = AttentionKernel::flash;
  }
  const Tensor mask = tensors.find("mask");
  if (mask.defined() && is_floating(mask.dtype())) {
    options.bias = tensors.leaf("mask");
  } else {
    options.mask = mask;
  }
  // As q, k and v below: an axis for the heads, and one for the batch.
  for (Tensor* each : {&options.mask, &options.bias}) {
    *each = each->defined() && each->rank() == 3 ? unsqueeze(*each, 1) : *each;
  }
  if (options.key_padding.defined() && options.key_padding.rank() == 1) {
    options.key_padding = unsqueeze(options.key_padding, 0);
  }
  const bool causal = is_causal(call);
  const int64_t offset = causal_offset(call, queries, keys);
  if (!call.window.empty()) {
    options.position = Window{call.window[0], causal ? 0 : call.window[1], offset, 0};
  } else if (causal) {
    options.position = Causal{offset};
  }
  return options;
}

namespace {

struct Heads {
  Tensor q, k, v;
};

Heads heads_of(AttentionTensors& tensors) {
  Heads heads{tensors.leaf("q"), tensors.leaf("k"), tensors.leaf("v")};
  const int rank = heads.q.rank();
  for (Tensor* x : {&heads.q, &heads.k, &heads.v}) {
    check_data(x->rank() >= 2 && x->rank() <= 4 && x->rank() == rank, tensors.file(),
               "q, k and v must all be [length, depth], [batch, length, depth] or [batch, heads, "
               "length, depth], not {}",
               x->shape().to_string());
    *x = rank == 2 ? unsqueeze(*x, 0) : *x;
    *x = rank < 4 ? unsqueeze(*x, 1) : *x;
  }
  return heads;
}

AttentionOptions options_of(const AttentionCall& call, AttentionTensors& tensors,
                            const Heads& heads) {
  return attention_options(call, tensors, heads.q.size(2), heads.k.size(2));
}

Tensor scaled_dot(const AttentionCall& call, AttentionTensors& tensors) {
  const Heads x = heads_of(tensors);
  return attention(x.q, x.k, x.v, options_of(call, tensors, x));
}

Tensor additive(const AttentionCall& call, AttentionTensors& tensors) {
  const Heads x = heads_of(tensors);
  return additive_attention(x.q, x.k, x.v, tensors.leaf("w_query"), tensors.leaf("w_key"),
                            tensors.leaf("v_score"), options_of(call, tensors, x));
}

Tensor luong_dot(const AttentionCall& call, AttentionTensors& tensors) {
  const Heads x = heads_of(tensors);
  return luong_dot_attention(x.q, x.k, x.v, options_of(call, tensors, x));
}

Tensor luong_general(const AttentionCall& call, AttentionTensors& tensors) {
  const Heads x = heads_of(tensors);
  return luong_general_attention(x.q, x.k, x.v, tensors.leaf("w_general"),
                                 options_of(call, tensors, x));
}

Tensor luong_concat(const AttentionCall& call, AttentionTensors& tensors) {
  const Heads x = heads_of(tensors);
  return luong_concat_attention(x.q, x.k, x.v, tensors.leaf("w_concat"), tensors.leaf("v_score"),
                                options_of(call, tensors, x));
}

Tensor shaw(const AttentionCall& call, AttentionTensors& tensors) {
  const Heads x = heads_of(tensors);
  return shaw_attention(x.q, x.k, x.v, tensors.optional_leaf("relative_key"),
                        tensors.optional_leaf("relative_value"), options_of(call, tensors, x));
}

Tensor longformer(const AttentionCall& call, AttentionTensors& tensors) {
  const Heads x = heads_of(tensors);
  LongformerInputs in;
  in.q = x.q;
  in.k = x.k;
  in.v = x.v;
  in.global_mask = tensors.find("global_mask");
  in.key_padding = tensors.find("key_padding");
  if (in.global_mask.defined()) {
    in.q_global = tensors.leaf("q_global");
    in.k_global = tensors.leaf("k_global");
    in.v_global = tensors.leaf("v_global");
  }
  in.window = call.attention_window;
  if (in.window == 0 && !call.window.empty()) {
    if (call.window[0] != call.window[1] || call.window[0] < 0) {
      fail(ErrorKind::usage, "--window", "longformer looks as far to the left as to the right");
    }
    in.window = call.window[0] + call.window[1];
  } else if (in.window == 0) {
    in.window = 512;
  }
  return longformer_attention(in);
}

Tensor bigbird(const AttentionCall& call, AttentionTensors& tensors) {
  const Heads x = heads_of(tensors);
  BigBirdInputs in;
  in.q = x.q;
  in.k = x.k;
  in.v = x.v;
  in.key_padding = tensors.find("key_padding");
  in.block_size = call.block_size;
  in.random_blocks = tensors.find("random_blocks");
  const int64_t blocks = x.q.size(2) / call.block_size;
  if (!in.random_blocks.defined() && blocks > 2) {
    // Few blocks are all seen: none is drawn, only counted.
    const bool all_seen = blocks <= 5 + 2 * call.random_blocks;
    in.random_blocks = bigbird_random_blocks(x.q.size(1), blocks, call.random_blocks,
                                             {call.seed, 0}, call.hf_compat || all_seen);
  }
  return bigbird_attention(in);
}

Tensor performer(const AttentionCall& call, AttentionTensors& tensors) {
  const Heads x = heads_of(tensors);
  Tensor projection = tensors.find("projection");
  if (!projection.defined()) {
    projection = performer_projection(call.features, x.q.size(3), {call.seed, 0});
  }
  return performer_attention(x.q, x.k, x.v, projection.to(x.q.dtype()), call.causal != "none",
                             tensors.find("key_padding"));
}

Tensor fnet(const AttentionCall& /*call*/, AttentionTensors& tensors) {
  return fnet_mixing(tensors.leaf("hidden_states"));
}

Tensor swin(const AttentionCall& call, AttentionTensors& tensors) {
  const Heads x = heads_of(tensors);
  SwinInputs in;
  in.q = x.q;
  in.k = x.k;
  in.v = x.v;
  in.bias_table = tensors.optional_leaf("relative_position_bias_table");
  in.height = call.height;
  in.width = call.width;
  in.window = call.window_size;
  in.shift = call.shift;
  return swin_attention(in);
}

}  // namespace

const std::vector<AttentionVariant>& attention_variants() {
  const std::vector<std::string> every{"causal", "causal_offset", "scale",      "softcap",
                                       "window", "mask",          "key_padding"};
  static const std::vector<AttentionVariant> all{
      {"scaled-dot", "", scaled_dot, true, every},
      {"additive", "w_query [A, Dq], w_key [A, Dk], v_score [A]", additive, true, every},
      {"luong-dot", "", luong_dot, true, every},
      {"luong-general", "w_general [Dq, Dk]", luong_general, true, every},
      {"luong-concat", "w_concat [A, Dq+Dk], v_score [A]", luong_concat, true, every},
      {"shaw",
       "relative_key, relative_value [2m+1, D]",
       shaw,
       false,
       {"causal", "causal_offset", "scale", "window", "mask", "key_padding"}},
      {"longformer",
       "global_mask u8 [B, T], q_global, k_global, v_global; --attention-window",
       longformer,
       false,
       {"window", "key_padding"}},
      {"bigbird",
       "random_blocks i64 [H, blocks-2, r], else drawn; --block-size",
       bigbird,
       false,
       {"key_padding"}},
      {"performer",
       "projection [m, D], else drawn; --features",
       performer,
       false,
       {"causal", "key_padding"}},
      {"fnet", "hidden_states [B, T, E] instead of q, k, v", fnet, false, {}},
      {"swin",
       "relative_position_bias_table [(2w-1)^2, H]; --height, --width, --window-size, --shift",
       swin,
       false,
       {}},
  };
  return all;
}

void check_followed(const AttentionVariant& variant, const AttentionCall& call,
                    const AttentionTensors& tensors) {
  const std::tuple<const char*, bool, const char*> given[] = {
      {"causal", call.causal != "none", "--causal"},
      {"causal_offset", call.causal_offset.has_value(), "--causal-offset"},
      {"scale", call.scale.has_value(), "--scale"},
      {"softcap", call.softcap != 0.0, "--softcap"},
      {"window", !call.window.empty(), "--window"},
      {"mask", tensors.find("mask").defined(), "tensor mask"},
      {"key_padding", tensors.find("key_padding").defined(), "tensor key_padding"},
  };
  for (const auto& [name, there, shown] : given) {
    const bool follows =
        std::find(variant.follows.begin(), variant.follows.end(), name) != variant.follows.end();
    if (there && !follows) {
      fail(ErrorKind::usage, shown, "variant {} does not follow it{}", variant.name,
           variant.follows.empty()
               ? std::string()
               : fmt::format("; it follows {}", fmt::join(variant.follows, ", ")));
    }
  }
}

}  // namespace heed::app
