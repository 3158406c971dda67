#include <algorithm>

#include "models/registry.h"
#include "models/vision_encoder.h"

namespace heed {
namespace {

/// DINOv2: ViT with LayerScale, a gated feed-forward part on request, and a classifier over the
/// class token and the mean of the patches.
VisionEncoderConfig dinov2_like_config(const Json& config, const std::string& family,
                                       const std::string& base) {
  VisionEncoderConfig c = vit_like_config(config, family, base);
  EncoderConfig& l = c.layers;
  l.norm.eps = positive_or(config, "layer_norm_eps", 1e-6);
  l.intermediate_size = l.hidden_size * config.integer_or("mlp_ratio", 4, 1, 1024);
  l.names.attention_norm = "norm1";
  l.names.mlp_norm = "norm2";
  l.names.up = "mlp.fc1";
  l.names.down = "mlp.fc2";
  l.names.attention_scale = "layer_scale1.lambda1";
  l.names.mlp_scale = "layer_scale2.lambda1";
  l.layer_scale = config.number_or("layerscale_value", 1.0, -1e6, 1e6);
  if (config.boolean_or("use_swiglu_ffn", false)) {
    // Two thirds of the size, rounded up to a multiple of 8.
    l.intermediate_size = (l.intermediate_size * 2 / 3 + 7) / 8 * 8;
    l.names.gate_up = "mlp.weights_in";
    l.names.down = "mlp.weights_out";
    l.activation = Activation::silu;
  }
  c.mask_token = config.boolean_or("use_mask_token", true);
  c.first_is_pooled = true;
  c.classifier_reads_mean = true;
  return c;
}

VisionEncoderConfig dinov2_config(const Json& config) {
  return dinov2_like_config(config, "Dinov2", "dinov2");
}

/// Register tokens, which have no positions, stand between the class token and the patches.
VisionEncoderConfig dinov2_with_registers_config(const Json& config) {
  VisionEncoderConfig c =
      dinov2_like_config(config, "Dinov2WithRegisters", "dinov2_with_registers");
  c.mask_token = true;
  c.registers = config.integer_or("num_register_tokens", 4, 0, 1 << 16);
  return c;
}

ModelSpec dinov2_like_spec(const std::string& type, const std::string& family,
                           const std::function<VisionEncoderConfig(const Json& config)>& read) {
  ModelSpec spec = vit_like_spec(type, family, type, read);
  spec.fresh_config = [plain = spec.fresh_config](const FreshSizes& sizes) {
    const int64_t ratio = sizes.intermediate_size / std::max<int64_t>(sizes.hidden_size, 1);
    return plain(sizes).set("mlp_ratio", std::max<int64_t>(ratio, 1));
  };
  return spec;
}

}  // namespace

ModelSpec dinov2_spec() { return dinov2_like_spec("dinov2", "Dinov2", dinov2_config); }

ModelSpec dinov2_with_registers_spec() {
  return dinov2_like_spec("dinov2_with_registers", "Dinov2WithRegisters",
                          dinov2_with_registers_config);
}

}  // namespace heed
