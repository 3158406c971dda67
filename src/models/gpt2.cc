#include <cmath>

#include "base/check.h"
#include "base/dropout_streams.h"
#include "models/common.h"
#include "models/cross_decoder.h"
#include "models/heads.h"
#include "models/registry.h"

namespace heed {
namespace {

/// GPT-2: learned positions, pre-LN blocks with one projection to q | k | v, a tied head. With
/// add_cross_attention (captioning) each block also looks at an encoder's result.
class Gpt2 final : public SizedModel, public CrossDecoder {
 public:
  Gpt2(const Json& config, const Scope& root) {
    width_ = extent(config, "n_embd");
    layers_ = layer_count(config, "n_layer");
    heads_ = extent(config, "n_head");
    context_ = extent(config, "n_positions");
    vocabulary_ = extent(config, "vocab_size");
    const int64_t inner = extent_or(config, "n_inner", 4 * width_);
    has_cross_ = config.boolean_or("add_cross_attention", false);
    check_size(config, root,
               static_cast<double>(vocabulary_ + context_) * static_cast<double>(width_) +
                   static_cast<double>(layers_) * static_cast<double>(width_) *
                       static_cast<double>((has_cross_ ? 8 : 4) * width_ + 2 * inner));
    root.allow_prefix("transformer.");
    root.ignore({"*.attn.bias", "*.attn.masked_bias", "*.crossattention.bias",
                 "*.crossattention.masked_bias"});
    const bool tied = config.boolean_or("tie_word_embeddings", true);
    has_head_ =
        has_word_head(config, "GPT2Model", root.is_fresh() || tied || root.has("lm_head.weight"));
    const Scope base = has_head_ ? root / "transformer" : root;
    const double deviation = positive_or(config, "initializer_range", 0.02);
    tokens_ = Embedding(base / "wte", vocabulary_, width_, Init::normal(deviation));
    positions_ = Embedding(base / "wpe", context_, width_, Init::normal(deviation));
    embedding_dropout_ = rate_or(config, "embd_pdrop", 0.1);
    for (int64_t i = 0; i < layers_; ++i) {
      blocks_.push_back(make_block(config, base / "h" / i, i, inner, deviation));
    }
    norm_ = Norm(base / "ln_f", width_, positive_or(config, "layer_norm_epsilon", 1e-5));
    if (has_head_ && tied) {
      root.alias("lm_head.weight");
      head_ = Linear(tokens_.weight(), {});
    } else if (has_head_) {
      head_ = Linear(root / "lm_head", width_, vocabulary_,
                     {.bias = false, .init = Init::normal(deviation)});
    }
  }

  ModelKind kind() const override { return ModelKind::decoder; }

  ModelOutput forward(const ModelInput& input) const override {
    check_inputs(input, {}, "GPT-2");
    const TokenRows tokens =
        token_rows(input.input_ids, input.attention_mask, vocabulary_, input.skip_padding);
    return results(tokens, tokens.pass(input.training), input, shifted_loss);
  }

  ModelOutput forward_with(const ModelInput& input, const Memory& memory) const override {
    const Place place("decoder");
    const TokenRows tokens = token_rows(input.decoder_input_ids, input.decoder_attention_mask,
                                        vocabulary_, input.skip_padding, "decoder_input_ids");
    Pass pass = tokens.pass(input.training);
    pass.memory = &memory.rows;
    pass.memory_layout = &memory.layout;
    return results(tokens, pass, input, token_loss);
  }

  bool looks_at_memory() const override { return has_cross_; }

  SequenceCache new_cache(int64_t capacity) const override {
    SequenceCache cache =
        self_caches(layers_, heads_, std::min(capacity, context_), width_ / heads_);
    cache.cross.resize(has_cross_ ? blocks_.size() : 0);
    return cache;
  }

  Tensor decode(const Tensor& ids, Pass& pass) const override {
    Tensor rows = run(ids, pass.positions(), pass, nullptr);
    advance_caches(pass);
    return rows;
  }

  Tensor logits(const Tensor& rows) const override {
    check(has_head_, "generate", "this model has no head over words (lm_head)");
    return head_(rows);
  }

 private:
  ModelOutput results(const TokenRows& tokens, const Pass& pass, const ModelInput& input,
                      RowsLoss loss) const {
    check_length(tokens.length, context_);
    const Tensor rows = run(tokens.ids, tokens.positions, pass, &tokens);
    if (has_head_) {
      return token_results(rows, tokens, head_, input, loss);
    }
    ModelOutput output;
    output.last_hidden_state = tokens.to_batch(rows);
    return output;
  }

  Block make_block(const Json& config, const Scope& scope, int64_t layer, int64_t inner,
                   double deviation) const {
    const double eps = positive_or(config, "layer_norm_epsilon", 1e-5);
    const auto in_out = WeightLayout::in_out;
    const Init init = Init::normal(deviation);
    const Init residual = Init::normal(deviation / std::sqrt(2.0 * static_cast<double>(layers_)));
    MultiHeadAttention::Options options;
    options.heads = heads_;
    options.head_width = head_width(config, "n_embd", width_, "n_head", heads_);
    options.causal = true;
    options.dropout = rate_or(config, "attn_pdrop", 0.1);
    double scale = config.boolean_or("scale_attn_weights", true)
                       ? 1.0 / std::sqrt(static_cast<double>(options.head_width))
                       : 1.0;
    if (config.boolean_or("scale_attn_by_inverse_layer_idx", false)) {
      scale /= static_cast<double>(layer + 1);
    }
    options.scale = scale;
    Block::Parts parts;
    parts.attention_norm = Norm(scope / "ln_1", width_, eps);
    parts.attention = MultiHeadAttention(
        Linear(scope / "attn" / "c_attn", width_, 3 * width_, {.layout = in_out, .init = init}),
        Linear(scope / "attn" / "c_proj", width_, width_, {.layout = in_out, .init = residual}),
        options);
    if (has_cross_) {
      const Scope cross = scope / "crossattention";
      options.causal = false;
      parts.has_cross = true;
      parts.cross_norm = Norm(scope / "ln_cross_attn", width_, eps);
      parts.cross = MultiHeadAttention(
          Linear(cross / "q_attn", width_, width_, {.layout = in_out, .init = init}),
          Linear(cross / "c_attn", width_, 2 * width_, {.layout = in_out, .init = init}),
          Linear(cross / "c_proj", width_, width_, {.layout = in_out, .init = residual}), options);
    }
    parts.feed_forward_norm = Norm(scope / "ln_2", width_, eps);
    parts.feed_forward = FeedForward(
        Linear(scope / "mlp" / "c_fc", width_, inner, {.layout = in_out, .init = init}),
        Linear(scope / "mlp" / "c_proj", inner, width_, {.layout = in_out, .init = residual}),
        activation_of(config, "activation_function", "gelu_new"));
    parts.pre_norm = true;
    parts.dropout = rate_or(config, "resid_pdrop", 0.1);
    return Block(std::move(parts));
  }

  /// Hidden rows after the final norm.
  Tensor run(const Tensor& ids, const Tensor& positions, const Pass& pass,
             const TokenRows* tokens) const {
    const Tensor embedded = observe("hook_embed", tokens_(ids));
    Tensor rows = add(embedded, observe("hook_pos_embed", positions_(positions)));
    const RaggedRows ragged(pass.layout.starts);
    rows = dropout(rows, embedding_dropout_, pass.training);
    return run_stack(blocks_, norm_, rows, pass, recompute_, tokens);
  }

  bool has_head_ = true;
  bool has_cross_ = false;
  double embedding_dropout_ = 0.0;
  Embedding tokens_, positions_;
  std::vector<Block> blocks_;
  Norm norm_;
  Linear head_;
};

}  // namespace

std::unique_ptr<Model> make_gpt2(const Json& config, const Scope& scope) {
  return std::make_unique<Gpt2>(config, scope);
}

}  // namespace heed
