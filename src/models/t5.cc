#include <cmath>

#include "base/check.h"
#include "base/language.h"
#include "heed/transformer.h"
#include "models/encoder_decoder.h"
#include "models/fresh_config.h"
#include "models/registry.h"

namespace heed {
namespace {

/// T5: pre-RMSNorm encoder-decoder without biases; relative positions as a bias on the scores, from
/// one table a stack that lives in its first block.
class T5 final : public EncoderDecoder {
 public:
  T5(const Json& config, const Scope& root) {
    const bool writes =
        named_head<bool>(config, {{"T5ForConditionalGeneration", true},
                                  {"T5Model", false},
                                  {"T5WithLMHeadModel", true}})  // as the first releases say
            .value_or(true);
    hidden_size_ = size_of(config, "d_model");
    intermediate_size_ = size_of(config, "d_ff");
    num_layers_ = layer_count(config, "num_layers");
    vocab_size_ = size_of(config, "vocab_size");
    target_.vocabulary = vocab_size_;
    target_.layers =
        config.has("num_decoder_layers") ? layer_count(config, "num_decoder_layers") : num_layers_;
    target_.heads = size_of(config, "num_heads");
    target_.head_dim = size_of(config, "d_kv");
    target_.padding = token_or(config, "pad_token_id", 0, vocab_size_);
    target_.start = token_or(config, "decoder_start_token_id", target_.padding, vocab_size_);
    buckets_ = size_or(config, "relative_attention_num_buckets", 32);
    max_distance_ = size_or(config, "relative_attention_max_distance", 128);
    check_data(buckets_ % 4 == 0 && max_distance_ > buckets_ / 2, config.file(),
               "relative_attention_num_buckets {} must be a multiple of 4, and "
               "relative_attention_max_distance {} more than half of it",
               buckets_, max_distance_);
    const double inside =
        static_cast<double>(target_.heads) * static_cast<double>(target_.head_dim);
    check_size(config, root,
               static_cast<double>(hidden_size_) *
                   (static_cast<double>(vocab_size_) +
                    static_cast<double>(num_layers_ + target_.layers) *
                        (4 * inside + 2 * static_cast<double>(intermediate_size_))));
    check_size(config, root, static_cast<double>(buckets_) * static_cast<double>(target_.heads));
    eps_ = positive_or(config, "layer_norm_epsilon", 1e-6);
    dropout_ = rate_or(config, "dropout_rate", 0.1);
    factor_ = positive_or(config, "initializer_factor", 1.0);
    read_feed_forward(config);
    if (!gated_) {
      root.allow_ending(".DenseReluDense.wi.weight", ".DenseReluDense.wi_1.weight");  // GGUF
    }
    tokens_ = Embedding(root / "shared", vocab_size_, hidden_size_, Init::normal(factor_));
    root.alias("encoder.embed_tokens.weight");
    root.alias("decoder.embed_tokens.weight");
    root.ignore({"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"},
                say("a bias of cross-attention, which T5 does not have"));
    encoder_ = make_stack(root / "encoder", num_layers_, false);
    decoder_ = make_stack(root / "decoder", target_.layers, true);
    const bool tied = config.boolean_or("tie_word_embeddings", true);
    if (!writes) {
      return;
    }
    if (tied) {
      root.alias("lm_head.weight");
      head_ = Linear(tokens_.weight(), {});
    } else {
      head_ = Linear(root / "lm_head", hidden_size_, vocab_size_,
                     {.bias = false, .init = Init::normal(factor_)});
    }
    if (config.boolean_or("scale_decoder_outputs", tied)) {
      head_scale_ = 1.0 / std::sqrt(static_cast<double>(hidden_size_));
    }
  }

  int64_t num_layers() const override { return num_layers_; }
  int64_t num_heads() const override { return target_.heads; }

 protected:
  TokenRows read_source(const ModelInput& input, bool skip_padding) const override {
    check_inputs(input, {.decoder = true}, "T5");
    return token_rows(input.input_ids, input.attention_mask, vocab_size_, skip_padding);
  }

  Tensor run_encoder(const TokenRows& source, const ModelInput&, Pass& pass) const override {
    pass.bias = t5_bias(encoder_.bias_table, source.length, source.length, 0, true, max_distance_);
    return run(encoder_, source.ids, pass, "encoder_hidden_states", &source);
  }

  Tensor run_decoder(const Tensor& ids, const Tensor&, Pass& pass,
                     const TokenRows* tokens) const override {
    if (pass.caches.empty()) {
      int64_t length = 0;
      for (int64_t i = 0; i < pass.layout.batch; ++i) {
        length = std::max(length, pass.layout.length_of(i));
      }
      pass.bias = t5_bias(decoder_.bias_table, length, length, 0, false, max_distance_);
    }
    pass.cached_bias.clear();
    for (size_t i = 0; i < pass.caches.size(); ++i) {
      const int64_t past = pass.caches[i]->length;
      const int64_t queries = pass.layout.length_of(static_cast<int64_t>(i));
      pass.cached_bias.push_back(
          t5_bias(decoder_.bias_table, queries, past + queries, past, false, max_distance_));
    }
    return run(decoder_, ids, pass, "decoder_hidden_states", tokens);
  }

 private:
  struct Stack {
    Tensor bias_table;  ///< [buckets, heads]
    std::vector<Block> blocks;
    Norm norm;
  };

  void read_feed_forward(const Json& config) {
    const std::string kind = config.string_or("feed_forward_proj", "relu");
    gated_ = kind.starts_with("gated-");
    const std::string name = gated_ ? kind.substr(6) : kind;
    if (kind == "gated-gelu") {
      activation_ = Activation::gelu_tanh;
    } else if (name == "relu") {
      activation_ = Activation::relu;
    } else if (name == "gelu") {
      activation_ = Activation::gelu;
    } else if (name == "silu") {
      activation_ = Activation::silu;
    } else {
      fail(ErrorKind::data, config.file(),
           "feed_forward_proj '{}' is not supported; use relu, gelu, silu or gated-gelu", kind);
    }
  }

  Stack make_stack(const Scope& scope, int64_t layers, bool decoder) const {
    Stack stack;
    const double inside =
        static_cast<double>(target_.heads) * static_cast<double>(target_.head_dim);
    const double width = factor_ / std::sqrt(static_cast<double>(hidden_size_));
    const Scope first = scope / "block" / 0 / "layer" / 0 / "SelfAttention";
    stack.bias_table = (first / "relative_attention_bias")
                           .parameter("weight", {buckets_, target_.heads}, Init::normal(width));
    auto dense = [&](const Scope& at, int64_t in, int64_t out, double stddev) {
      return Linear(at, in, out, {.bias = false, .init = Init::normal(stddev)});
    };
    auto attention = [&](const Scope& at, bool causal) {
      MultiHeadAttention::Options options;
      options.num_heads = target_.heads;
      options.head_dim = target_.head_dim;
      options.causal = causal;
      options.scale = 1.0;
      options.dropout = dropout_;
      const int64_t all = target_.heads * target_.head_dim;
      return MultiHeadAttention(
          dense(at / "q", hidden_size_, all,
                width / std::sqrt(static_cast<double>(target_.head_dim))),
          dense(at / "k", hidden_size_, all, width), dense(at / "v", hidden_size_, all, width),
          dense(at / "o", all, hidden_size_, factor_ / std::sqrt(inside)), options);
    };
    auto norm = [&](const Scope& at) {
      return Norm(at / "layer_norm", hidden_size_, eps_, Norm::Kind::rms);
    };
    for (int64_t i = 0; i < layers; ++i) {
      const Scope block = scope / "block" / i / "layer";
      Block::Parts parts;
      parts.dropout = dropout_;
      parts.attention_norm = norm(block / 0);
      parts.attention = attention(block / 0 / "SelfAttention", decoder);
      parts.has_cross = decoder;
      if (decoder) {
        parts.cross_norm = norm(block / 1);
        parts.cross = attention(block / 1 / "EncDecAttention", false);
      }
      const Scope last = block / (decoder ? 2 : 1);
      parts.feed_forward_norm = norm(last);
      const Scope intermediate_size = last / "DenseReluDense";
      const double back = factor_ / std::sqrt(static_cast<double>(intermediate_size_));
      parts.feed_forward =
          gated_ ? FeedForward(
                       dense(intermediate_size / "wi_0", hidden_size_, intermediate_size_, width),
                       dense(intermediate_size / "wi_1", hidden_size_, intermediate_size_, width),
                       dense(intermediate_size / "wo", intermediate_size_, hidden_size_, back),
                       activation_, dropout_)
                 : FeedForward(
                       dense(intermediate_size / "wi", hidden_size_, intermediate_size_, width),
                       dense(intermediate_size / "wo", intermediate_size_, hidden_size_, back),
                       activation_, dropout_);
      stack.blocks.emplace_back(std::move(parts));
    }
    stack.norm = Norm(scope / "final_layer_norm", hidden_size_, eps_, Norm::Kind::rms);
    return stack;
  }

  /// Hidden rows after the final norm, which Hugging Face counts as the last hidden state.
  Tensor run(const Stack& stack, const Tensor& ids, const Pass& pass, const char* name,
             const TokenRows* tokens) const {
    auto hidden = [&](int64_t index, const Tensor& value) {
      if (tokens != nullptr) {
        observe_hidden(name, index, *tokens, value);
      }
    };
    Tensor rows = pass.dropout(observe("hook_embed", tokens_(ids)), dropout_);
    hidden(0, rows);
    const auto last = static_cast<int64_t>(stack.blocks.size()) - 1;
    rows = run_blocks(stack.blocks, rows, pass, gradient_checkpointing_,
                      [&](int64_t layer, const Tensor& value) {
                        if (layer < last) {
                          hidden(layer + 1, value);
                        }
                      });
    rows = observe("ln_final.hook_normalized", stack.norm(rows));
    rows = pass.dropout(rows, dropout_);
    hidden(last + 1, rows);
    return rows;
  }

  int64_t intermediate_size_ = 0, num_layers_ = 0, vocab_size_ = 0, buckets_ = 0, max_distance_ = 0;
  double eps_ = 1e-6, dropout_ = 0.0, factor_ = 1.0;
  bool gated_ = false;
  Activation activation_ = Activation::relu;
  Embedding tokens_;
  Stack encoder_, decoder_;
};

/// What GGUF's readers take for granted of a T5.
constexpr int64_t kGgufMaxDistance = 128;

/// What both stacks have: names in GGUF and, behind a block's number, in the checkpoint; `last`
/// numbers the feed-forward part.
void add_gguf_stack(GgufSpec& gguf, const std::string& side, const std::string& stack,
                    const std::string& last) {
  const std::string attention = "layer.0.SelfAttention.";
  const std::pair<const char*, std::string> parts[] = {
      {"attn_norm", "layer.0.layer_norm"},
      {"attn_q", attention + "q"},
      {"attn_k", attention + "k"},
      {"attn_v", attention + "v"},
      {"attn_o", attention + "o"},
      {"attn_rel_b", attention + "relative_attention_bias"},
      {"ffn_norm", last + ".layer_norm"},
      {"ffn_gate", last + ".DenseReluDense.wi_0"},
      {"ffn_up", last + ".DenseReluDense.wi_1"},
      {"ffn_up", last + ".DenseReluDense.wi"},
      {"ffn_down", last + ".DenseReluDense.wo"},
      {"cross_attn_norm", "layer.1.layer_norm"},
      {"cross_attn_q", "layer.1.EncDecAttention.q"},
      {"cross_attn_k", "layer.1.EncDecAttention.k"},
      {"cross_attn_v", "layer.1.EncDecAttention.v"},
      {"cross_attn_o", "layer.1.EncDecAttention.o"},
  };
  for (const auto& [name, checkpoint] : parts) {
    if (side == "dec" || !std::string_view(name).starts_with("cross_")) {
      gguf.tensors.push_back({fmt::format("{}.blk.#.{}", side, name),
                              fmt::format("{}.block.#.{}", stack, checkpoint)});
    }
  }
  gguf.tensors.push_back({side + ".output_norm", stack + ".final_layer_norm"});
}

GgufSpec t5_gguf() {
  using Kind = GgufKey::Kind;
  GgufSpec gguf;
  gguf.architecture = "t5";
  gguf.keys = {
      {"embedding_length", "d_model"},
      {"feed_forward_length", "d_ff"},
      {"block_count", "num_layers"},
      {"decoder_block_count", "num_decoder_layers", Kind::size, GgufKey::kUnset},
      {"attention.head_count", "num_heads"},
      {"attention.key_length", "d_kv"},
      {"attention.relative_buckets_count", "relative_attention_num_buckets", Kind::size, 32},
      {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon", Kind::number, 1e-6}};
  gguf.tensors = {{"token_embd", "shared"}, {"output", "lm_head"}};
  add_gguf_stack(gguf, "enc", "encoder", "layer.1");
  add_gguf_stack(gguf, "dec", "decoder", "layer.2");
  gguf.read_config = [](const GgufMetadata& file, JsonBuilder& config) {
    const bool gated = file.has_tensor("enc.blk.0.ffn_gate.weight");
    config.set("feed_forward_proj", gated ? "gated-gelu" : "relu");
    config.set("tie_word_embeddings", !file.has_tensor("output.weight"));
    config.set_default("decoder_start_token_id", file.size("decoder_start_token_id", 0));
  };
  gguf.write_config = [](GgufOutput& file, const Json& config, const Model&) {
    file.size("context_length", size_or(config, "n_positions", 512));
    file.size("attention.value_length", size_of(config, "d_kv"));
    file.number("attention.layer_norm_epsilon", positive_or(config, "layer_norm_epsilon", 1e-6));
    file.size("decoder_start_token_id", config.integer_or("decoder_start_token_id", 0, 0, 1 << 24));
  };
  gguf.check_writable = [](const Json& config) {
    const std::string kind = config.string_or("feed_forward_proj", "relu");
    check(kind == "relu" || kind == "gated-gelu", "gguf",
          "has no place for T5's feed_forward_proj '{}', only for relu and gated-gelu", kind);
    const int64_t distance = size_or(config, "relative_attention_max_distance", kGgufMaxDistance);
    check(distance == kGgufMaxDistance, "gguf",
          "has no place for T5's relative_attention_max_distance {}, only for {}", distance,
          kGgufMaxDistance);
  };
  return gguf;
}

}  // namespace

ModelSpec t5_spec() {
  ModelSpec spec;
  spec.model_type = "t5";
  spec.kind = ModelKind::encoder_decoder;
  spec.heads = {{"T5ForConditionalGeneration", "translation", ""}};
  spec.ties = {.embedding = "shared.weight",
               .lm_head = "lm_head.weight",
               .copies = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"},
               .set_when_untied = {"scale_decoder_outputs"}};
  spec.gguf = t5_gguf();
  spec.train_tasks = {"translate", "fid"};
  spec.fresh_config = [](const FreshSizes& sizes) {
    return stack_fresh_config("t5", sizes)
        .set("d_kv", sizes.hidden_size / sizes.num_heads)
        .set("d_ff", sizes.intermediate_size)
        .set("num_layers", sizes.num_layers)
        .set("num_decoder_layers", sizes.num_layers)
        .set("num_heads", sizes.num_heads)
        .set("dropout_rate", sizes.dropout);
  };
  spec.make = [](const Json& config, const Scope& scope) -> std::unique_ptr<Model> {
    return std::make_unique<T5>(config, scope);
  };
  return spec;
}

}  // namespace heed
