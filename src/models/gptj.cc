#include "base/check.h"
#include "models/decoder.h"
#include "models/registry.h"

namespace heed {
namespace {

GgufSpec gptj_gguf() {
  using Kind = GgufKey::Kind;
  GgufSpec gguf =
      gpt_like_gguf("gptj", "transformer.", "h.",
                    {{"token_embd", "wte"}, {"output_norm", "ln_f"}, {"output", "lm_head"}},
                    {{"attn_norm", "ln_1"},
                     {"attn_q", "attn.q_proj"},
                     {"attn_k", "attn.k_proj"},
                     {"attn_v", "attn.v_proj"},
                     {"attn_output", "attn.out_proj"},
                     {"ffn_up", "mlp.fc_in"},
                     {"ffn_down", "mlp.fc_out"}},
                    {{"embedding_length", "n_embd"},
                     {"block_count", "n_layer"},
                     {"attention.head_count", "n_head"},
                     {"context_length", "n_positions", Kind::size, 2048},
                     {"feed_forward_length", "n_inner", Kind::size, GgufKey::kUnset},
                     {"rope.dimension_count", "rotary_dim", Kind::size, 64},
                     {"attention.layer_norm_epsilon", "layer_norm_epsilon", Kind::number, 1e-5}});
  gguf.write_config = [](GgufOutput& file, const Json& config, const Model& model) {
    if (!config.has("n_inner")) {
      file.size("feed_forward_length", 4 * model.hidden_size());
    }
  };
  return gguf;
}

}  // namespace

/// GPT-J: parallel parts behind one LayerNorm, rotation of adjacent pairs in the first rotary_dim
/// columns, no biases in attention, a bias on the LM head.
ModelSpec gptj_spec() {
  ModelSpec spec;
  spec.model_type = "gptj";
  spec.kind = ModelKind::decoder;
  spec.heads = decoder_heads("GPTJ", "transformer.");
  spec.ties = {.prefix = "transformer.",
               .embedding = "wte.weight",
               .lm_head = "lm_head.weight",
               .tied_by_default = false};
  spec.gguf = gptj_gguf();
  spec.make = [](const Json& config, const Scope& scope) {
    DecoderConfig decoder;
    decoder.hidden_size = size_of(config, "n_embd");
    decoder.num_layers = layer_count(config, "n_layer");
    decoder.num_heads = decoder.num_kv_heads = size_of(config, "n_head");
    decoder.head_dim = head_dim(config, "n_embd", decoder.hidden_size, "n_head", decoder.num_heads);
    decoder.context_length = size_or(config, "n_positions", 2048);
    decoder.vocab_size = size_of(config, "vocab_size");
    decoder.intermediate_size = size_or(config, "n_inner", 4 * decoder.hidden_size);
    decoder.norm = {.eps = positive_or(config, "layer_norm_epsilon", 1e-5)};
    DecoderNames& names = decoder.names;
    names.base = "transformer";
    names.embedding = "wte";
    names.layers = "h";
    names.final_norm = "ln_f";
    names.attention_norm = "ln_1";
    names.attention = "attn";
    names.output = "out_proj";
    names.mlp_norm.clear();
    names.gate.clear();
    names.up = "fc_in";
    names.down = "fc_out";
    decoder.parallel = true;
    decoder.mlp_bias = decoder.lm_head_bias = true;
    decoder.tied = config.boolean_or("tie_word_embeddings", false);
    decoder.activation = activation_of(config, "activation_function", "gelu_new");
    decoder.residual_dropout = rate_or(config, "resid_pdrop", 0.0);
    decoder.embedding_dropout = rate_or(config, "embd_pdrop", 0.0);
    decoder.attention_dropout = rate_or(config, "attn_pdrop", 0.0);
    decoder.padding = padding_token(config, std::nullopt, decoder.vocab_size);
    decoder.init = Init::normal(positive_or(config, "initializer_range", 0.02));
    const int64_t rotated =
        size_or(config, "rotary_dim", config.mentions("rotary_dim") ? decoder.head_dim : 64);
    check_data(rotated > 0 && rotated % 2 == 0 && rotated <= decoder.head_dim, config.file(),
               "rotary_dim is {}; it must be even and at most the {} columns of a head", rotated,
               decoder.head_dim);
    decoder.rotary = {Rotary(rotated, decoder.context_length, 10000.0, true)};
    decoder.ignored = {"*.attn.bias", "*.attn.masked_bias"};
    return make_decoder(config, scope, decoder);
  };
  return spec;
}

}  // namespace heed
