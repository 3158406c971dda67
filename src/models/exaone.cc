#include "models/decoder.h"
#include "models/registry.h"

namespace heed {

/// EXAONE 4: norms after each part only, norms of each head's queries and keys; three layers with a
/// window to one without, and rotary positions only where there is a window.
ModelSpec exaone4_spec() {
  ModelSpec spec = llama_like_spec("exaone4", "Exaone4", "exaone4", false);
  use_norm_eps(spec.gguf, 1e-5);
  const auto window_of = [](const Json& config) {
    return size_or(config, "sliding_window", config.mentions("sliding_window") ? 0 : 4096);
  };
  spec.make = [window_of](const Json& config, const Scope& scope) {
    DecoderConfig decoder = llama_like_config(with_default(config, "rms_norm_eps", 1e-5));
    use_post_norms(decoder);
    decoder.names.query_norm = "q_norm";
    decoder.names.key_norm = "k_norm";
    decoder.qkv_bias = decoder.output_bias = decoder.mlp_bias = false;
    const int64_t window = window_of(config);
    const int64_t period =
        config.has("sliding_window_pattern") && config.at("sliding_window_pattern").is_integer()
            ? config.integer("sliding_window_pattern", 0, 1 << 20)
            : 4;
    decoder.windows = windows_by_layer(config, decoder.num_layers, window, [&](int64_t layer) {
      return window > 0 && period > 0 && (layer + 1) % period != 0;
    });
    const Rotary rotary = decoder.rotary.front();
    decoder.rotary.clear();
    for (const int64_t each : decoder.windows) {
      decoder.rotary.push_back(window == 0 || each > 0 ? rotary : Rotary());
    }
    return make_decoder(config, scope, decoder);
  };
  use_post_norms(spec.gguf);
  add_query_key_norms(spec.gguf);
  // The 32B model is the one with windows; its first files do not say so.
  spec.gguf.read_config = [base = spec.gguf.read_config](const GgufMetadata& file,
                                                         JsonBuilder& config) {
    base(file, config);
    const bool largest = config.build().integer("num_hidden_layers", 1, 1 << 20) == 64;
    if (const int64_t window = file.size("attention.sliding_window", largest ? 4096 : 0)) {
      config.set("sliding_window", window);
    } else {
      config.set_null("sliding_window");
    }
  };
  spec.gguf.write_config = [base = spec.gguf.write_config, window_of](
                               GgufOutput& file, const Json& config, const Model& model) {
    base(file, config, model);
    if (window_of(config) > 0) {
      file.size("attention.sliding_window", window_of(config));
    }
  };
  return spec;
}

/// EXAONE 3 and 3.5: Llama under names of its own.
ModelSpec exaone_spec() {
  ModelSpec spec = llama_like_spec("exaone", "Exaone", "exaone", false);
  use_norm_eps(spec.gguf, 1e-5);
  spec.heads = decoder_heads("Exaone", "transformer.");
  spec.ties = {.prefix = "transformer.",
               .embedding = "wte.weight",
               .lm_head = "lm_head.weight",
               .tied_by_default = false};
  spec.train_tasks.clear();
  spec.fresh_config = nullptr;
  spec.gguf.prefix = "transformer.";
  spec.gguf.layers = "h.";
  spec.gguf.tensors = {{"token_embd", "wte"}, {"output_norm", "ln_f"}, {"output", "lm_head"}};
  spec.gguf.layer_tensors = {{"attn_norm", "ln_1"},
                             {"attn_q", "attn.attention.q_proj"},
                             {"attn_k", "attn.attention.k_proj"},
                             {"attn_v", "attn.attention.v_proj"},
                             {"attn_output", "attn.attention.out_proj"},
                             {"ffn_norm", "ln_2"},
                             {"ffn_gate", "mlp.c_fc_0"},
                             {"ffn_up", "mlp.c_fc_1"},
                             {"ffn_down", "mlp.c_proj"}};
  spec.make = [](const Json& given, const Scope& scope) {
    JsonBuilder renamed(given);
    const auto rename = [&](const char* own, const char* name) {
      if (given.has(own)) {
        renamed.set(name, given.at(own));
      }
    };
    rename("num_layers", "num_hidden_layers");
    rename("layer_norm_epsilon", "rms_norm_eps");
    rename("activation_function", "hidden_act");
    const Json config = renamed.build(given.file());
    DecoderConfig decoder = llama_like_config(with_default(config, "rms_norm_eps", 1e-5));
    decoder.names.base = "transformer";
    decoder.names.embedding = "wte";
    decoder.names.layers = "h";
    decoder.names.final_norm = "ln_f";
    decoder.names.attention_norm = "ln_1";
    decoder.names.attention = "attn.attention";
    decoder.names.output = "out_proj";
    decoder.names.mlp_norm = "ln_2";
    decoder.names.gate = "c_fc_0";
    decoder.names.up = "c_fc_1";
    decoder.names.down = "c_proj";
    decoder.embedding_dropout = rate_or(config, "embed_dropout", 0.0);
    return make_decoder(config, scope, decoder);
  };
  return spec;
}

}  // namespace heed
