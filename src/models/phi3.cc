#include "models/decoder.h"
#include "models/registry.h"
#include "models/rope.h"

namespace heed {
namespace {

/// Phi-3's configuration with its defaults. What its first releases called YaRN has LongRoPE's
/// factors.
Json phi3_config(const Json& given) {
  JsonBuilder config(given);
  config.set_default("rms_norm_eps", 1e-5);
  config.set_default("original_max_position_embeddings", int64_t{4096});
  const auto settings = rotary_settings(given);
  if (rotary_type(settings) == "yarn" && settings->has("short_factor")) {
    const char* key = given.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
    config.set(key, JsonBuilder(*settings).set("rope_type", "longrope"));
  }
  return config.build(given.file());
}

/// A window of 0 is none; fewer rotated columns than a head has are a part of it (Phi-4 mini).
void read_phi3(const GgufMetadata& file, JsonBuilder& config) {
  const Json so_far = config.build();
  const int64_t plain =
      so_far.integer("hidden_size", 1, 1 << 24) / so_far.integer("num_attention_heads", 1, 1 << 24);
  const int64_t dim = file.size("attention.key_length", plain);
  config.set("head_dim", dim);
  const int64_t rotated = file.size("rope.dimension_count", dim);
  if (rotated < dim && !so_far.has("rope_parameters")) {
    config.set("partial_rotary_factor", static_cast<double>(rotated) / static_cast<double>(dim));
  }
  if (const int64_t window = file.size("attention.sliding_window", 0); window > 0) {
    config.set("sliding_window", window);
  } else {
    config.set_null("sliding_window");
  }
}

}  // namespace

/// Phi 3 and 3.5: Llama with fused projections, an optional window and LongRoPE.
ModelSpec phi3_spec() {
  ModelSpec spec = llama_like_spec("phi3", "Phi3", "phi3", false);
  use_norm_eps(spec.gguf, 1e-5);
  spec.gguf.layer_tensors = {
      {"attn_norm", "input_layernorm"},    {"attn_qkv", "self_attn.qkv_proj"},
      {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
      {"ffn_up", "mlp.gate_up_proj"},      {"ffn_down", "mlp.down_proj"}};
  spec.gguf.read_config = [base = spec.gguf.read_config](const GgufMetadata& file,
                                                         JsonBuilder& config) {
    base(file, config);
    read_phi3(file, config);
  };
  spec.gguf.write_config = [](GgufOutput& file, const Json& given, const Model& model) {
    const Json config = phi3_config(given);
    const auto settings = rotary_settings(config);
    const double whole = config.number_or("partial_rotary_factor", 1.0, 0.0, 1.0);
    write_llama_like(
        file, config, model,
        settings ? settings->number_or("partial_rotary_factor", whole, 0.0, 1.0) : whole);
    file.size("attention.sliding_window", size_or(config, "sliding_window", 0));
  };
  spec.make = [](const Json& given, const Scope& scope) {
    const Json config = phi3_config(given);
    DecoderConfig decoder = llama_like_config(config, 1.0);
    decoder.names.qkv = "qkv_proj";
    decoder.names.gate_up = "gate_up_proj";
    decoder.qkv_bias = decoder.output_bias = false;
    decoder.windows = {size_or(config, "sliding_window", 0)};
    decoder.residual_dropout = rate_or(config, "resid_pdrop", 0.0);
    if (!config.mentions("pad_token_id") && decoder.vocab_size > 32000) {
      decoder.padding = 32000;
    }
    return make_decoder(config, scope, decoder);
  };
  return spec;
}

}  // namespace heed
