#include "models/encoder.h"

#include <cmath>

#include "base/check.h"
#include "heed/transformer.h"
#include "models/encoder_head.h"

namespace heed {
namespace {

MultiHeadAttention make_attention(const Scope& scope, const EncoderConfig& c, int64_t layer) {
  const EncoderNames& n = c.names;
  const auto at = static_cast<size_t>(layer);
  MultiHeadAttention::Options options;
  options.num_heads = c.num_heads;
  options.head_dim = c.hidden_size / c.num_heads;
  options.causal = c.causal;
  options.dropout = c.attention_dropout;
  options.rotary = c.rotary.empty() ? Rotary() : c.rotary[at];
  options.window = c.windows.empty() ? 0 : c.windows[at];
  const int64_t size = c.hidden_size;
  const auto dense = [&](const std::string& name, int64_t out, bool bias) {
    return Linear(scope / name, size, out, {.bias = bias, .init = c.init});
  };
  const bool output_bias = c.output_bias.value_or(c.attention_bias);
  if (!n.qkv.empty()) {
    Linear qkv = dense(n.qkv, 3 * size, c.attention_bias);
    return MultiHeadAttention(std::move(qkv), dense(n.output, size, output_bias), options);
  }
  Linear q = dense(n.query, size, c.attention_bias);
  Linear k = dense(n.key, size, c.key_bias.value_or(c.attention_bias));
  Linear v = dense(n.value, size, c.attention_bias);
  return MultiHeadAttention(std::move(q), std::move(k), std::move(v),
                            dense(n.output, size, output_bias), options);
}

class Encoder final : public SizedModel {
 public:
  Encoder(const Json& config, const Scope& root, const EncoderConfig& encoder) : c_(encoder) {
    vocab_size_ = c_.vocab_size;
    context_length_ = c_.context_length;
    hidden_size_ = c_.hidden_size;
    num_heads_ = c_.num_heads;
    num_layers_ = c_.num_layers * (c_.layer_groups > 0 ? c_.group_layers : 1);
    check_size(config, root, parameter_estimate());
    const auto kind = EncoderHead::kind_of(config, root, c_);
    head_kind_ = kind;
    answers_ = kind == EncoderHead::Kind::question;
    root.allow_prefix(c_.names.base + ".");
    root.allow_ending("LayerNorm.weight", "LayerNorm.gamma");
    root.allow_ending("LayerNorm.bias", "LayerNorm.beta");
    root.ignore({"*embeddings.position_ids", "*embeddings.token_type_ids"});
    for (const std::string& name : c_.ignored) {
      root.ignore({name});
    }
    const Scope base = kind == EncoderHead::Kind::none ? root : root / c_.names.base;
    make_embeddings(base);
    make_blocks(base);
    head_ = EncoderHead(kind, config, root, base, c_, words_);
  }

  ModelKind kind() const override { return ModelKind::encoder; }

  ModelOutput do_forward(const ModelInput& input) const override {
    // The loss of an answer is taken over all positions, padding included.
    const bool skip = input.skip_padding && !(answers_ && input.start_positions.defined());
    const TokenRows tokens = read(input, skip);
    return head_(run(tokens, input), tokens, input);
  }

  EncoderOutput encode(const ModelInput& input) const override {
    const TokenRows tokens = read(input, true);
    return {run(tokens, input), tokens.layout};
  }

 private:
  double parameter_estimate() const {
    const auto hidden = static_cast<double>(c_.hidden_size);
    const auto embedding = c_.embedding_size > 0 ? static_cast<double>(c_.embedding_size) : hidden;
    const auto layers = static_cast<double>(c_.layer_groups > 0 ? c_.layer_groups * c_.group_layers
                                                                : c_.num_layers);
    const bool gated = !c_.names.gate_up.empty();
    const auto inner = static_cast<double>((gated ? 3 : 2) * c_.intermediate_size);
    return static_cast<double>(vocab_size_ + context_length_ + c_.token_types) * embedding +
           layers * hidden * (4.0 * hidden + inner);
  }

  void make_embeddings(const Scope& base) {
    const EncoderNames& n = c_.names;
    const int64_t size = c_.embedding_size > 0 ? c_.embedding_size : hidden_size_;
    words_ = Embedding(base / n.words, vocab_size_, size, c_.init, c_.padding);
    if (!n.positions.empty()) {
      const bool after = c_.positions_after_padding;
      const int64_t offset = after ? *c_.padding + 1 : c_.position_offset;
      positions_ = Embedding(base / n.positions, context_length_ + offset, size, c_.init,
                             after ? c_.padding : std::nullopt);
    }
    if (c_.token_types > 0) {
      segments_ = Embedding(base / n.token_types, c_.token_types, size, c_.init);
    }
    if (!n.early_projection.empty()) {
      early_projection_ =
          Linear(base / n.early_projection, size, hidden_size_, {.bias = false, .init = c_.init});
    }
    norm_ =
        Norm(base / n.embedding_norm, early_projection_.defined() ? hidden_size_ : size, c_.norm);
    if (!n.projection.empty()) {
      projection_ = Linear(base / n.projection, size, hidden_size_, {.init = c_.init});
    }
  }

  void make_blocks(const Scope& base) {
    const EncoderNames& n = c_.names;
    if (c_.layer_groups == 0) {
      for (int64_t i = 0; i < num_layers_; ++i) {
        blocks_.push_back(make_encoder_block(base, base / n.layers / i, c_, i));
      }
    } else {
      make_shared_blocks(base);
    }
    if (!n.relative_bias.empty()) {
      relative_bias_ =
          (base / n.relative_bias).parameter("weight", {c_.relative_buckets, num_heads_}, c_.init);
    }
    if (!n.final_norm.empty()) {
      final_norm_ = Norm(base / n.final_norm, hidden_size_, c_.norm);
    }
  }

  /// ALBERT's groups: consecutive layers that run the same weights.
  void make_shared_blocks(const Scope& base) {
    std::vector<std::vector<Block>> groups;
    for (int64_t g = 0; g < c_.layer_groups; ++g) {
      const Scope group = base / c_.names.layers / g / "albert_layers";
      std::vector<Block> blocks;
      for (int64_t i = 0; i < c_.group_layers; ++i) {
        blocks.push_back(make_encoder_block(base, group / i, c_, i));
      }
      groups.push_back(std::move(blocks));
    }
    const double per_group =
        static_cast<double>(c_.num_layers) / static_cast<double>(c_.layer_groups);
    for (int64_t i = 0; i < c_.num_layers; ++i) {
      const auto& group = groups[static_cast<size_t>(static_cast<double>(i) / per_group)];
      blocks_.insert(blocks_.end(), group.begin(), group.end());
    }
  }

  TokenRows read(const ModelInput& input, bool skip_padding) const {
    return read_tokens(input,
                       {.token_types = c_.token_types > 0,
                        .global_mask = c_.reads_global_mask,
                        .answers = answers_},
                       model_type(), vocab_size_, context_length_, skip_padding);
  }

  /// Rows of the table of positions.
  Tensor positions_of(const TokenRows& tokens, const ModelInput& input) const {
    if (!c_.positions_after_padding) {
      Tensor positions = tokens.positions.clone();
      for (int64_t i = 0; i < positions.numel(); ++i) {
        positions.data<int64_t>()[i] += c_.position_offset;
      }
      return positions;
    }
    const Tensor ids = input.input_ids.to(DType::i64).contiguous();
    Tensor positions = Tensor::empty(ids.shape(), DType::i64);
    for (int64_t b = 0; b < tokens.batch; ++b) {
      int64_t count = 0;
      for (int64_t t = 0; t < tokens.length; ++t) {
        const int64_t at = b * tokens.length + t;
        const bool padding = ids.data<int64_t>()[at] == *c_.padding;
        positions.data<int64_t>()[at] = *c_.padding + (padding ? 0 : ++count);
      }
    }
    return tokens.pick(positions);
  }

  /// The given token types, or the usual ones, i64 [N].
  Tensor token_types(const TokenRows& tokens, const ModelInput& input) const {
    if (input.token_type_ids.defined()) {
      return tokens.pick(input.token_type_ids);
    }
    Tensor types = Tensor::zeros({tokens.layout.rows()}, DType::i64);
    if (answers_ && c_.hides_question) {
      const Tensor question = question_rows(tokens, input, *c_.separator);
      std::transform(question.data<int64_t>(), question.data<int64_t>() + question.numel(),
                     types.data<int64_t>(), [](int64_t asks) { return 1 - asks; });
    }
    return types;
  }

  Tensor embed(const TokenRows& tokens, const ModelInput& input, const Pass& pass) const {
    Tensor rows = observe("hook_embed", words_(tokens.ids));
    if (c_.embedding_scale != 1.0) {
      rows = mul(rows, c_.embedding_scale);
    }
    if (segments_.defined()) {
      rows = add(rows, segments_(token_types(tokens, input)));
    }
    if (positions_.defined()) {
      rows = add(rows, observe("hook_pos_embed", positions_(positions_of(tokens, input))));
    }
    const double dropout = c_.embedding_dropout.value_or(c_.dropout);
    if (c_.dropout_before_norm) {
      rows = pass.dropout(rows, dropout);
    }
    rows = norm_(early_projection_.defined() ? early_projection_(rows) : rows);
    if (c_.mask_embeddings && pass.layout.key_padding.defined()) {
      const Tensor real = cast(pass.layout.key_padding, DType::f32);
      rows = mul(rows, reshape(real, {rows.size(0), 1}));
    }
    if (!c_.dropout_before_norm && !c_.dropout_after_projection) {
      rows = pass.dropout(rows, dropout);
    }
    rows = projection_.defined() ? projection_(rows) : rows;
    return c_.dropout_after_projection ? pass.dropout(rows, dropout) : rows;
  }

  /// Which tokens attend to all where the input does not say, u8 [batch, length].
  Tensor usual_global_tokens(const TokenRows& tokens, const ModelInput& input) const {
    Tensor mask = Tensor::zeros({tokens.batch, tokens.length}, DType::u8);
    const Tensor ids = input.input_ids.to(DType::i64).contiguous();
    for (int64_t b = 0; b < tokens.batch; ++b) {
      uint8_t* row = mask.data<uint8_t>() + b * tokens.length;
      const int64_t* id = ids.data<int64_t>() + b * tokens.length;
      row[0] = head_kind_ == EncoderHead::Kind::sequence;
      const bool asks = answers_ && c_.separator.has_value();
      for (int64_t t = 0; asks && t < tokens.length && id[t] != *c_.separator; ++t) {
        row[t] = 1;
      }
    }
    return mask;
  }

  /// Hidden rows after the last block.
  Tensor run(const TokenRows& tokens, const ModelInput& input) const {
    Pass pass = tokens.pass(input);
    const Tensor rows = embed(tokens, input, pass);
    if (c_.reads_global_mask) {
      pass.global_rows =
          global_rows(input.global_attention_mask.defined() ? input.global_attention_mask
                                                            : usual_global_tokens(tokens, input),
                      tokens);
    }
    if (relative_bias_.defined()) {
      pass.bias = t5_bias(relative_bias_, tokens.length, tokens.length, 0, true);
    }
    return run_stack(blocks_, final_norm_, rows, pass, gradient_checkpointing_, &tokens);
  }

  EncoderConfig c_;
  EncoderHead::Kind head_kind_ = EncoderHead::Kind::none;
  bool answers_ = false;
  Embedding words_, positions_, segments_;
  Norm norm_, final_norm_;
  Linear projection_, early_projection_;
  Tensor relative_bias_;
  std::vector<Block> blocks_;
  EncoderHead head_;
};

}  // namespace

Block make_encoder_block(const Scope& base, const Scope& scope, const EncoderConfig& c,
                         int64_t layer) {
  const EncoderNames& n = c.names;
  const auto dense = [&](const std::string& name, int64_t in, int64_t out) {
    return Linear(scope / name, in, out, {.bias = c.mlp_bias, .init = c.init});
  };
  Block::Parts parts;
  parts.pre_norm = c.pre_norm;
  parts.dropout = c.dropout;
  parts.attention_dropout = c.attention_output_dropout;
  if (c.make_mixer) {
    c.make_mixer(base, scope, layer, parts);
  } else {
    parts.attention = make_attention(scope, c, layer);
  }
  if (layer > 0 || c.first_norm) {
    parts.attention_norm = Norm(scope / n.attention_norm, c.hidden_size, c.norm);
  }
  const int64_t inner = c.intermediate_size;
  if (!n.gate_up.empty()) {
    Linear gate_up = dense(n.gate_up, c.hidden_size, 2 * inner);
    parts.feed_forward = FeedForward::fused_gate(
        std::move(gate_up), dense(n.down, inner, c.hidden_size), c.activation, c.mlp_dropout);
  } else {
    Linear up = dense(n.up, c.hidden_size, inner);
    parts.feed_forward = FeedForward(std::move(up), dense(n.down, inner, c.hidden_size),
                                     c.activation, c.mlp_dropout);
  }
  parts.feed_forward_norm = Norm(scope / n.mlp_norm, c.hidden_size, c.norm);
  const auto factors = [&](const std::string& name) {
    const Init start{Init::Kind::constant, c.layer_scale};
    return name.empty() ? Tensor() : scope.parameter(name, {c.hidden_size}, start);
  };
  parts.attention_scale = factors(n.attention_scale);
  parts.feed_forward_scale = factors(n.mlp_scale);
  return Block(std::move(parts));
}

Block::Mixer by_sequence(SequenceMixer mix) {
  return [mix = std::move(mix)](const Tensor& rows, const Pass& pass, int64_t) {
    const HookScope hook_scope("attn");
    const Layout& layout = pass.layout;
    const int64_t size = rows.size(1);
    const auto run = [&](const Tensor& x, const Pass& inner) {
      const Layout& at = inner.layout;
      const Tensor y = mix(reshape(x, {at.batch, at.length, size}), at.key_padding, inner);
      return reshape(y, {at.batch * at.length, y.size(2)});
    };
    if (!layout.is_ragged()) {
      return run(rows, pass);
    }
    std::vector<Tensor> parts;
    const RandomState random = random_state();
    for (int64_t i = 0; i < layout.batch; ++i) {
      set_random_state(random);  // one stream for the layer; examples differ in it
      Pass inner = pass;
      inner.layout = Layout::equal(1, layout.length_of(i));
      inner.first_example += i;
      if (pass.global_rows.defined()) {
        inner.global_rows =
            slice(pass.global_rows, 0, layout.start(i), layout.start(i + 1)).contiguous();
      }
      if (layout.length_of(i) > 0) {
        parts.push_back(run(slice(rows, 0, layout.start(i), layout.start(i + 1)), inner));
      }
    }
    return concat(parts, 0);
  };
}

std::unique_ptr<Model> make_encoder(const Json& config, const Scope& scope,
                                    const EncoderConfig& encoder) {
  return std::make_unique<Encoder>(config, scope, encoder);
}

}  // namespace heed
