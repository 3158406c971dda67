#include "base/check.h"
#include "models/common.h"
#include "models/heads.h"
#include "models/registry.h"
#include "models/rope.h"

namespace heed {
namespace {

/// Llama: rotary positions, RMSNorm before each part, grouped keys and values, SwiGLU.
class Llama final : public SizedModel {
 public:
  Llama(const Json& config, const Scope& root) {
    hidden_size_ = size_of(config, "hidden_size");
    num_layers_ = layer_count(config, "num_hidden_layers");
    num_heads_ = size_of(config, "num_attention_heads");
    num_kv_heads_ = size_or(config, "num_key_value_heads", num_heads_);
    check_data(num_heads_ % num_kv_heads_ == 0, config.file(),
               "num_attention_heads {} is not divisible by num_key_value_heads {}", num_heads_,
               num_kv_heads_);
    head_dim_ = config.has("head_dim") ? size_of(config, "head_dim")
                                       : head_dim(config, "hidden_size", hidden_size_,
                                                  "num_attention_heads", num_heads_);
    window_ = sliding_window(config);
    context_length_ = size_or(config, "max_position_embeddings", 2048);
    vocab_size_ = size_of(config, "vocab_size");
    const int64_t intermediate_size = size_of(config, "intermediate_size");
    const bool tied = config.boolean_or("tie_word_embeddings", false);
    check_size(config, root,
               static_cast<double>(tied ? vocab_size_ : 2 * vocab_size_) *
                       static_cast<double>(hidden_size_) +
                   static_cast<double>(num_layers_) * static_cast<double>(hidden_size_) *
                       (static_cast<double>(2 * (num_heads_ + num_kv_heads_)) *
                            static_cast<double>(head_dim_) +
                        static_cast<double>(3 * intermediate_size)));
    root.allow_prefix("model.");
    root.ignore({"*.rotary_emb.inv_freq"});
    has_head_ = has_lm_head(
        config, config.string("model_type") == "mistral" ? "MistralModel" : "LlamaModel",
        root.is_fresh() || tied || root.has("lm_head.weight"));
    const Scope base = has_head_ ? root / "model" : root;
    const Init init = Init::normal(positive_or(config, "initializer_range", 0.02));
    tokens_ = Embedding(base / "embed_tokens", vocab_size_, hidden_size_, init,
                        padding_token(config, std::nullopt, vocab_size_));
    const Rotary rotary = rotary_of(config, head_dim_, context_length_);
    for (int64_t i = 0; i < num_layers_; ++i) {
      blocks_.push_back(make_block(config, base / "layers" / i, intermediate_size, rotary, init));
    }
    norm_ = Norm(base / "norm", hidden_size_, positive_or(config, "rms_norm_eps", 1e-6),
                 Norm::Kind::rms);
    if (has_head_ && tied) {
      root.alias("lm_head.weight");
      head_ = Linear(tokens_.weight(), {});
    } else if (has_head_) {
      head_ = Linear(root / "lm_head", hidden_size_, vocab_size_, {.bias = false, .init = init});
    }
  }

  ModelKind kind() const override { return ModelKind::decoder; }

  ModelOutput forward(const ModelInput& input) const override {
    check_inputs(input, {}, "Llama");
    const TokenRows tokens =
        token_rows(input.input_ids, input.attention_mask, vocab_size_, input.skip_padding);
    check_length(tokens.length, context_length_);
    const Tensor rows = run(tokens.ids, tokens.pass(input), &tokens);
    if (has_head_) {
      return token_results(rows, tokens, head_, input, shifted_loss);
    }
    ModelOutput output;
    output.last_hidden_state = tokens.to_batch(rows);
    return output;
  }

  SequenceCache new_cache(int64_t capacity) const override {
    return self_caches(num_layers_, num_kv_heads_, std::min(capacity, context_length_), head_dim_,
                       window_);
  }

  Tensor decode(const Tensor& ids, Pass& pass) const override {
    Tensor rows = run(ids, pass, nullptr);
    advance_caches(pass);
    return rows;
  }

  Tensor logits(const Tensor& rows) const override {
    check(has_head_, "generate", "this model has no head over words (lm_head)");
    return head_(rows);
  }

 private:
  Block make_block(const Json& config, const Scope& scope, int64_t intermediate_size,
                   const Rotary& rotary, const Init& init) const {
    const double eps = positive_or(config, "rms_norm_eps", 1e-6);
    const Linear::Options attention_linear = {.bias = config.boolean_or("attention_bias", false),
                                              .init = init};
    const Linear::Options mlp_linear = {.bias = config.boolean_or("mlp_bias", false), .init = init};
    MultiHeadAttention::Options options;
    options.num_heads = num_heads_;
    options.num_kv_heads = num_kv_heads_;
    options.head_dim = head_dim_;
    options.causal = true;
    options.window = window_;
    options.dropout = rate_or(config, "attention_dropout", 0.0);
    options.rotary = rotary;
    const Scope attention = scope / "self_attn";
    const int64_t q_width = num_heads_ * head_dim_;
    const int64_t kv_width = num_kv_heads_ * head_dim_;
    Block::Parts parts;
    parts.attention_norm = Norm(scope / "input_layernorm", hidden_size_, eps, Norm::Kind::rms);
    parts.attention = MultiHeadAttention(
        Linear(attention / "q_proj", hidden_size_, q_width, attention_linear),
        Linear(attention / "k_proj", hidden_size_, kv_width, attention_linear),
        Linear(attention / "v_proj", hidden_size_, kv_width, attention_linear),
        Linear(attention / "o_proj", q_width, hidden_size_, attention_linear), options);
    parts.feed_forward_norm =
        Norm(scope / "post_attention_layernorm", hidden_size_, eps, Norm::Kind::rms);
    const Scope mlp = scope / "mlp";
    parts.feed_forward =
        FeedForward(Linear(mlp / "gate_proj", hidden_size_, intermediate_size, mlp_linear),
                    Linear(mlp / "up_proj", hidden_size_, intermediate_size, mlp_linear),
                    Linear(mlp / "down_proj", intermediate_size, hidden_size_, mlp_linear),
                    activation_of(config, "hidden_act", "silu"));
    parts.pre_norm = true;
    return Block(std::move(parts));
  }

  /// Hidden rows after the final norm.
  Tensor run(const Tensor& ids, const Pass& pass, const TokenRows* tokens) const {
    return run_stack(blocks_, norm_, observe("hook_embed", tokens_(ids)), pass,
                     gradient_checkpointing_, tokens);
  }

  int64_t num_kv_heads_ = 0, head_dim_ = 0, window_ = 0;
  bool has_head_ = true;
  Embedding tokens_;
  std::vector<Block> blocks_;
  Norm norm_;
  Linear head_;
};

}  // namespace

std::unique_ptr<Model> make_llama(const Json& config, const Scope& scope) {
  return std::make_unique<Llama>(config, scope);
}

}  // namespace heed
