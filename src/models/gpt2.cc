#include <cmath>

#include "base/check.h"
#include "base/language.h"
#include "models/common.h"
#include "models/cross_decoder.h"
#include "models/registry.h"
#include "models/task_heads.h"

namespace heed {
namespace {

enum class Gpt2Head { none, next_token, sequence, tokens };

/// The head that config.json names, or the one whose tensors are there.
Gpt2Head gpt2_head_of(const Json& config, const Scope& root, bool tied) {
  const std::vector<std::pair<std::string, Gpt2Head>> known = {
      {"GPT2LMHeadModel", Gpt2Head::next_token},
      {"GPT2ForSequenceClassification", Gpt2Head::sequence},
      {"GPT2ForTokenClassification", Gpt2Head::tokens},
      {"GPT2Model", Gpt2Head::none}};
  if (const auto named = named_head<Gpt2Head>(config, known)) {
    return *named;
  }
  if (root.has("score.weight")) {
    return Gpt2Head::sequence;
  }
  if (root.has("classifier.weight")) {
    return Gpt2Head::tokens;
  }
  return root.is_fresh() || tied || root.has("lm_head.weight") ? Gpt2Head::next_token
                                                               : Gpt2Head::none;
}

/// GPT-2: learned positions, pre-LN blocks with one projection to q | k | v, a tied head. With
/// add_cross_attention (captioning) each block also looks at an encoder's result.
class Gpt2 final : public SizedModel, public CrossDecoder {
 public:
  Gpt2(const Json& config, const Scope& root) {
    hidden_size_ = size_of(config, "n_embd");
    num_layers_ = layer_count(config, "n_layer");
    num_heads_ = size_of(config, "n_head");
    context_length_ = size_of(config, "n_positions");
    vocab_size_ = size_of(config, "vocab_size");
    const int64_t intermediate_size = size_or(config, "n_inner", 4 * hidden_size_);
    has_cross_ = config.boolean_or("add_cross_attention", false);
    check_size(
        config, root,
        static_cast<double>(vocab_size_ + context_length_) * static_cast<double>(hidden_size_) +
            static_cast<double>(num_layers_) * static_cast<double>(hidden_size_) *
                static_cast<double>((has_cross_ ? 8 : 4) * hidden_size_ + 2 * intermediate_size));
    root.allow_prefix("transformer.");
    root.ignore({"*.attn.bias", "*.attn.masked_bias", "*.crossattention.bias",
                 "*.crossattention.masked_bias"},
                say("a causal mask, which heed computes itself"), true);
    const bool tied = config.boolean_or("tie_word_embeddings", true);
    head_kind_ = gpt2_head_of(config, root, tied);
    const Scope base = head_kind_ == Gpt2Head::none ? root : root / "transformer";
    const double stddev = positive_or(config, "initializer_range", 0.02);
    tokens_ = Embedding(base / "wte", vocab_size_, hidden_size_, Init::normal(stddev));
    positions_ = Embedding(base / "wpe", context_length_, hidden_size_, Init::normal(stddev));
    embedding_dropout_ = rate_or(config, "embd_pdrop", 0.1);
    for (int64_t i = 0; i < num_layers_; ++i) {
      blocks_.push_back(make_block(config, base / "h" / i, i, intermediate_size, stddev));
    }
    norm_ = Norm(base / "ln_f", hidden_size_, positive_or(config, "layer_norm_epsilon", 1e-5));
    make_head(config, root, tied, Init::normal(stddev));
  }

  ModelKind kind() const override {
    const bool classifies = head_kind_ == Gpt2Head::sequence || head_kind_ == Gpt2Head::tokens;
    return classifies ? ModelKind::encoder : ModelKind::decoder;  // a classifier writes no text
  }

  ModelOutput do_forward(const ModelInput& input) const override {
    check_inputs(input, {}, "GPT-2");
    const TokenRows tokens =
        token_rows(input.input_ids, input.attention_mask, vocab_size_, input.skip_padding);
    return results(tokens, tokens.pass(input), input, next_token_targets);
  }

  ModelOutput forward_with(const ModelInput& input, const EncoderOutput& memory) const override {
    const HookScope hook_scope("decoder");
    const TokenRows tokens = token_rows(input.decoder_input_ids, input.decoder_attention_mask,
                                        vocab_size_, input.skip_padding, "decoder_input_ids");
    Pass pass = tokens.pass(input);
    pass.encoder_hidden_states = &memory.rows;
    pass.encoder_layout = &memory.layout;
    return results(tokens, pass, input, same_position_targets);
  }

  bool looks_at_memory() const override { return has_cross_; }

  SequenceCache new_cache(int64_t capacity) const override {
    SequenceCache cache = self_caches(num_layers_, num_heads_, std::min(capacity, context_length_),
                                      hidden_size_ / num_heads_, kv_type_);
    cache.cross.resize(has_cross_ ? blocks_.size() : 0);
    return cache;
  }

  Tensor decode(const Tensor& ids, Pass& pass) const override {
    Tensor rows = run(ids, pass.positions(), pass, nullptr);
    advance_caches(pass);
    return rows;
  }

  Tensor do_logits(const Tensor& rows) const override {
    check(head_kind_ == Gpt2Head::next_token, "generate",
          "this model has no LM head; load one made for text generation");
    return head_(rows);
  }

 private:
  ModelOutput results(const TokenRows& tokens, const Pass& pass, const ModelInput& input,
                      RowTargets targets) const {
    check_length(tokens.length, context_length_);
    const Tensor rows = run(tokens.ids, tokens.positions, pass, &tokens);
    switch (head_kind_) {
      case Gpt2Head::next_token:
        return token_results(rows, tokens, head_, input, targets);
      case Gpt2Head::sequence:
        return sequence_results(last_rows(rows, tokens, input, padding_), head_, input, problem_);
      case Gpt2Head::tokens:
        return token_results(pass.dropout(rows, classifier_dropout_), tokens, head_, input,
                             same_position_targets);
      case Gpt2Head::none:
        break;
    }
    ModelOutput output;
    output.last_hidden_state = tokens.to_batch(rows);
    return output;
  }

  void make_head(const Json& config, const Scope& root, bool tied, const Init& init) {
    if (head_kind_ == Gpt2Head::sequence) {
      problem_ = problem_type_of(config);
      padding_ = padding_token(config, std::nullopt, vocab_size_);
      head_ =
          Linear(root / "score", hidden_size_, label_count(config), {.bias = false, .init = init});
    } else if (head_kind_ == Gpt2Head::tokens) {
      classifier_dropout_ = rate_or(config, "classifier_dropout", 0.1);
      head_ = make_classifier(config, root, hidden_size_, label_count(config), init);
    } else if (head_kind_ == Gpt2Head::next_token && tied) {
      root.alias("lm_head.weight");
      head_ = Linear(tokens_.weight(), {});
    } else if (head_kind_ == Gpt2Head::next_token) {
      head_ = Linear(root / "lm_head", hidden_size_, vocab_size_, {.bias = false, .init = init});
    }
  }

  Block make_block(const Json& config, const Scope& scope, int64_t layer, int64_t intermediate_size,
                   double stddev) const {
    const double eps = positive_or(config, "layer_norm_epsilon", 1e-5);
    const auto in_out = WeightLayout::in_out;
    const Init init = Init::normal(stddev);
    const Init residual = Init::normal(stddev / std::sqrt(2.0 * static_cast<double>(num_layers_)));
    MultiHeadAttention::Options options;
    options.num_heads = num_heads_;
    options.head_dim = head_dim(config, "n_embd", hidden_size_, "n_head", num_heads_);
    options.causal = true;
    options.dropout = rate_or(config, "attn_pdrop", 0.1);
    double scale = config.boolean_or("scale_attn_weights", true)
                       ? 1.0 / std::sqrt(static_cast<double>(options.head_dim))
                       : 1.0;
    if (config.boolean_or("scale_attn_by_inverse_layer_idx", false)) {
      scale /= static_cast<double>(layer + 1);
    }
    options.scale = scale;
    Block::Parts parts;
    parts.attention_norm = Norm(scope / "ln_1", hidden_size_, eps);
    parts.attention = MultiHeadAttention(Linear(scope / "attn" / "c_attn", hidden_size_,
                                                3 * hidden_size_, {.layout = in_out, .init = init}),
                                         Linear(scope / "attn" / "c_proj", hidden_size_,
                                                hidden_size_, {.layout = in_out, .init = residual}),
                                         options);
    if (has_cross_) {
      const Scope cross = scope / "crossattention";
      options.causal = false;
      parts.has_cross = true;
      parts.cross_norm = Norm(scope / "ln_cross_attn", hidden_size_, eps);
      parts.cross = MultiHeadAttention(
          Linear(cross / "q_attn", hidden_size_, hidden_size_, {.layout = in_out, .init = init}),
          Linear(cross / "c_attn", hidden_size_, 2 * hidden_size_,
                 {.layout = in_out, .init = init}),
          Linear(cross / "c_proj", hidden_size_, hidden_size_,
                 {.layout = in_out, .init = residual}),
          options);
    }
    parts.feed_forward_norm = Norm(scope / "ln_2", hidden_size_, eps);
    parts.feed_forward = FeedForward(Linear(scope / "mlp" / "c_fc", hidden_size_, intermediate_size,
                                            {.layout = in_out, .init = init}),
                                     Linear(scope / "mlp" / "c_proj", intermediate_size,
                                            hidden_size_, {.layout = in_out, .init = residual}),
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
    rows = pass.dropout(rows, embedding_dropout_);
    return run_stack(blocks_, norm_, rows, pass, gradient_checkpointing_, tokens);
  }

  Gpt2Head head_kind_ = Gpt2Head::next_token;
  ProblemType problem_ = ProblemType::unspecified;
  std::optional<int64_t> padding_;
  double classifier_dropout_ = 0.0;
  bool has_cross_ = false;
  double embedding_dropout_ = 0.0;
  Embedding tokens_, positions_;
  std::vector<Block> blocks_;
  Norm norm_;
  Linear head_;
};

}  // namespace

namespace {

GgufSpec gpt2_gguf() {
  constexpr auto kTransposed = GgufLayout::transposed;
  GgufSpec gguf;
  gguf.architecture = "gpt2";
  gguf.prefix = "transformer.";
  gguf.layers = "h.";
  gguf.keys = {{"embedding_length", "n_embd"},
               {"block_count", "n_layer"},
               {"attention.head_count", "n_head"},
               {"context_length", "n_positions"},
               {"attention.layer_norm_epsilon", "layer_norm_epsilon", GgufKey::Kind::number, 1e-5}};
  gguf.tensors = {{"token_embd", "wte"},
                  {"position_embd", "wpe"},
                  {"output_norm", "ln_f"},
                  {"output", "lm_head"}};
  gguf.layer_tensors = {{"attn_norm", "ln_1"},
                        {"attn_qkv", "attn.c_attn", kTransposed},
                        {"attn_output", "attn.c_proj", kTransposed},
                        {"ffn_norm", "ln_2"},
                        {"ffn_up", "mlp.c_fc", kTransposed},
                        {"ffn_down", "mlp.c_proj", kTransposed}};
  gguf.read_config = [](const GgufMetadata& file, JsonBuilder& config) {
    config.set("n_inner", file.size("feed_forward_length", 0));
    config.set("tie_word_embeddings", !file.has_tensor("output.weight"));
    config.set_default("activation_function", "gelu_new");
  };
  gguf.write_config = [](GgufOutput& file, const Json& config, const Model& model) {
    file.size("feed_forward_length", size_or(config, "n_inner", 4 * model.hidden_size()));
  };
  gguf.check_writable = [](const Json& config) {
    check(!config.boolean_or("add_cross_attention", false), "gguf",
          "has no place for cross-attention");
  };
  return gguf;
}

}  // namespace

ModelSpec gpt2_spec() {
  ModelSpec spec;
  spec.model_type = "gpt2";
  spec.kind = ModelKind::decoder;
  spec.heads = {{"GPT2ForTokenClassification", "token-classification", "classifier."},
                {"GPT2ForSequenceClassification", "text-classification", "score."},
                {"GPT2LMHeadModel", "text-generation", "transformer."},
                {"GPT2Model", "", ""}};
  spec.ties = {.prefix = "transformer.", .embedding = "wte.weight", .lm_head = "lm_head.weight"};
  spec.gguf = gpt2_gguf();
  spec.train_tasks = {"lm"};
  spec.fresh_config = [](const FreshSizes& sizes) {
    return JsonBuilder()
        .set("model_type", "gpt2")
        .set("architectures", std::vector<std::string>{"GPT2LMHeadModel"})
        .set("vocab_size", sizes.vocab_size)
        .set("n_embd", sizes.hidden_size)
        .set("n_layer", sizes.num_layers)
        .set("n_head", sizes.num_heads)
        .set("n_positions", sizes.context_length)
        .set("n_inner", sizes.intermediate_size)
        .set("embd_pdrop", sizes.dropout)
        .set("attn_pdrop", sizes.dropout)
        .set("resid_pdrop", sizes.dropout);
  };
  spec.make = [](const Json& config, const Scope& scope) -> std::unique_ptr<Model> {
    return std::make_unique<Gpt2>(config, scope);
  };
  return spec;
}

}  // namespace heed
