#include "models/decoder.h"
#include "models/registry.h"

namespace heed {

/// StarCoder 2: Llama with LayerNorm, biases and a plain feed-forward part.
ModelSpec starcoder2_spec() {
  ModelSpec spec = llama_like_spec("starcoder2", "Starcoder2", "starcoder2", false);
  spec.ties.tied_by_default = true;
  spec.make = [](const Json& config, const Scope& scope) {
    DecoderConfig decoder = llama_like_config(with_default(config, "num_key_value_heads", 2));
    decoder.norm = {.eps = positive_or(config, "norm_epsilon", 1e-5)};
    const bool bias = config.boolean_or("use_bias", true);
    decoder.qkv_bias = decoder.output_bias = decoder.mlp_bias = bias;
    decoder.names.gate.clear();
    decoder.names.up = "c_fc";
    decoder.names.down = "c_proj";
    decoder.tied = config.boolean_or("tie_word_embeddings", true);
    decoder.activation = activation_of(config, "hidden_act", "gelu_pytorch_tanh");
    decoder.windows = {size_or(config, "sliding_window", 0)};
    decoder.residual_dropout = rate_or(config, "residual_dropout", 0.0);
    decoder.embedding_dropout = rate_or(config, "embedding_dropout", 0.0);
    return make_decoder(config, scope, decoder);
  };
  for (GgufTensor& tensor : spec.gguf.layer_tensors) {
    if (tensor.gguf == "ffn_up") {
      tensor.checkpoint = "mlp.c_fc";
    } else if (tensor.gguf == "ffn_down") {
      tensor.checkpoint = "mlp.c_proj";
    }
  }
  std::erase_if(spec.gguf.layer_tensors,
                [](const GgufTensor& tensor) { return tensor.gguf == "ffn_gate"; });
  std::erase_if(spec.gguf.keys, [](const GgufKey& key) { return key.config == "rms_norm_eps"; });
  spec.gguf.keys.push_back(
      {"attention.layer_norm_epsilon", "norm_epsilon", GgufKey::Kind::number, 1e-5});
  spec.gguf.keys.push_back(
      {"attention.sliding_window", "sliding_window", GgufKey::Kind::size, GgufKey::kUnset});
  spec.gguf.read_config = [base = spec.gguf.read_config](const GgufMetadata& file,
                                                         JsonBuilder& config) {
    config.set_default("hidden_act", "gelu_pytorch_tanh");
    base(file, config);
  };
  return spec;
}

}  // namespace heed
