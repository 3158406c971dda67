#include "heed/transformer.h"

#include <limits>

#include "base/check.h"
#include "heed/ops.h"

namespace heed {
namespace {

Block make_block(const Scope& scope, const TransformerOptions& o) {
  check(o.hidden_size > 0 && o.num_heads > 0 && o.hidden_size % o.num_heads == 0, "Transformer",
        "hidden_size {} is no multiple of num_heads {}", o.hidden_size, o.num_heads);
  const int64_t intermediate = o.intermediate_size.value_or(4 * o.hidden_size);
  check(intermediate > 0, "Transformer", "intermediate_size {}", intermediate);
  MultiHeadAttention::LayerOptions attention{.embed_dim = o.hidden_size,
                                             .num_heads = o.num_heads,
                                             .causal = o.causal,
                                             .dropout = o.dropout};
  Block::Parts parts;
  parts.attention = MultiHeadAttention(scope / "self_attn", attention);
  parts.attention_norm = Norm(scope / "norm1", o.hidden_size, o.norm_eps);
  parts.has_cross = o.cross_attention;
  if (o.cross_attention) {
    attention.causal = false;
    parts.cross = MultiHeadAttention(scope / "multihead_attn", attention);
    parts.cross_norm = Norm(scope / "norm2", o.hidden_size, o.norm_eps);
  }
  parts.feed_forward =
      FeedForward(Linear(scope / "linear1", o.hidden_size, intermediate),
                  Linear(scope / "linear2", intermediate, o.hidden_size), o.activation, o.dropout);
  parts.feed_forward_norm =
      Norm(scope / (o.cross_attention ? "norm3" : "norm2"), o.hidden_size, o.norm_eps);
  parts.pre_norm = o.pre_norm;
  parts.dropout = o.dropout;
  return Block(std::move(parts));
}

void check_sequence(const Tensor& x, const char* name, int64_t hidden_size) {
  check(x.defined() && x.rank() == 3 && x.size(2) == hidden_size, "Transformer",
        "{} {} must be [batch, length, hidden_size = {}]", name, x.defined() ? x.shape() : Shape(),
        hidden_size);
}

/// A mask as what is added to the scores; broadcast to four axes.
Tensor bias_of(const Tensor& mask) {
  if (!mask.defined()) {
    return {};
  }
  check(mask.rank() >= 2 && mask.rank() <= 4, "Transformer",
        "mask {} must be broadcastable to [batch, heads, length, length]", mask.shape());
  Tensor bias = mask;
  if (!is_floating(mask.dtype())) {
    const Tensor hidden = compare(Comparison::equal, mask, 0.0);
    bias =
        masked_fill(Tensor::zeros(mask.shape()), hidden, -std::numeric_limits<double>::infinity());
  }
  if (bias.rank() == 3) {  // [B, T, T]: the same for all heads
    return unsqueeze(bias, 1);
  }
  return bias.rank() == 2 ? unsqueeze(unsqueeze(bias, 0), 0) : bias;
}

Tensor rows_of(const Tensor& x) { return reshape(x, {x.size(0) * x.size(1), x.size(2)}); }

/// Calls run(rows, pass) with x and the encoder's output as rows, and gives its result x's shape.
template <class Run>
Tensor on_rows(const Tensor& x, const TransformerInput& input, int64_t hidden_size, bool cross,
               const Run& run) {
  check_sequence(x, "x", hidden_size);
  check(cross == input.encoder_hidden_states.defined(), "Transformer", "{}",
        cross ? "cross-attention needs encoder_hidden_states"
              : "encoder_hidden_states were given to a stack without cross_attention");
  Pass pass;
  pass.layout = Layout::equal(x.size(0), x.size(1), input.key_padding);
  pass.training = input.training;
  pass.bias = bias_of(input.mask);
  Tensor encoded;
  Layout encoder_layout;
  if (cross) {
    const Tensor& states = input.encoder_hidden_states;
    check_sequence(states, "encoder_hidden_states", hidden_size);
    check(states.size(0) == x.size(0), "Transformer", "x {} and encoder_hidden_states {}",
          x.shape(), states.shape());
    encoded = rows_of(states);
    encoder_layout = Layout::equal(states.size(0), states.size(1), input.encoder_padding);
    pass.encoder_hidden_states = &encoded;
    pass.encoder_layout = &encoder_layout;
  }
  return reshape(run(rows_of(x), pass), x.shape());
}

}  // namespace

TransformerBlock::TransformerBlock(const Scope& scope, const TransformerOptions& options)
    : block_(make_block(scope, options)),
      hidden_size_(options.hidden_size),
      cross_(options.cross_attention) {}

Tensor TransformerBlock::operator()(const Tensor& x, const TransformerInput& input) const {
  return on_rows(x, input, hidden_size_, cross_, [this](const Tensor& rows, const Pass& pass) {
    const DType inside = activation_type();
    if (inside == DType::f32 || rows.dtype() != DType::f32) {
      return block_(rows, pass, 0);
    }
    // Activations of another type, as run_blocks() has them for a stack.
    Pass reduced = pass;
    Tensor encoded;
    if (pass.encoder_hidden_states != nullptr) {
      encoded = cast(*pass.encoder_hidden_states, inside);
      reduced.encoder_hidden_states = &encoded;
    }
    return cast(block_(cast(rows, inside), reduced, 0), DType::f32);
  });
}

Transformer::Transformer(const Scope& scope, const TransformerOptions& options)
    : options_(options) {
  check(options.num_layers >= 0, "Transformer", "{} layers", options.num_layers);
  for (int64_t i = 0; i < options.num_layers; ++i) {
    blocks_.push_back(make_block(scope / "layers" / i, options));
  }
  if (options.final_norm.value_or(options.pre_norm)) {
    norm_ = Norm(scope / "norm", options.hidden_size, options.norm_eps);
  }
}

Tensor Transformer::operator()(const Tensor& x, const TransformerInput& input) const {
  return on_rows(x, input, options_.hidden_size, options_.cross_attention,
                 [this](const Tensor& rows, const Pass& pass) {
                   const Tensor y = run_blocks(blocks_, rows, pass, gradient_checkpointing_);
                   return norm_.defined() ? norm_(y) : y;
                 });
}

namespace {

TransformerOptions encoding(TransformerOptions options) {
  options.causal = false;
  options.cross_attention = false;
  return options;
}

TransformerOptions decoding(TransformerOptions options) {
  options.causal = true;
  options.cross_attention = true;
  return options;
}

}  // namespace

TransformerEncoder::TransformerEncoder(const Scope& scope, TransformerOptions options)
    : Transformer(scope, encoding(options)) {}

TransformerDecoder::TransformerDecoder(const Scope& scope, TransformerOptions options)
    : Transformer(scope, decoding(options)) {}

}  // namespace heed
