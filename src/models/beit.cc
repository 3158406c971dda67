#include "models/registry.h"
#include "models/vision_encoder.h"

namespace heed {
namespace {

/// BEiT: ViT with LayerScale and a bias of relative positions in place of learned positions; keys
/// without a bias.
VisionEncoderConfig beit_config(const Json& config) {
  VisionEncoderConfig c = vit_like_config(config, "Beit", "beit");
  EncoderConfig& l = c.layers;
  l.attention_bias = true;
  l.key_bias = false;
  l.layer_scale = config.number_or("layer_scale_init_value", 0.1, -1e6, 1e6);
  if (l.layer_scale > 0.0) {
    l.names.attention_scale = "lambda_1";
    l.names.mlp_scale = "lambda_2";
  }
  c.mask_token = config.boolean_or("use_mask_token", false);
  c.positions = config.boolean_or("use_absolute_position_embeddings", false);
  c.relative_bias = config.boolean_or("use_relative_position_bias", false);
  c.shared_relative_bias = config.boolean_or("use_shared_relative_position_bias", false);
  c.mean_norm = config.boolean_or("use_mean_pooling", true);
  c.first_is_pooled = true;
  if (c.mean_norm) {
    c.final_norm.clear();
  }
  return c;
}

}  // namespace

ModelSpec beit_spec() {
  ModelSpec spec = vit_like_spec("beit", "Beit", "beit", beit_config);
  spec.fresh_config = [plain = spec.fresh_config](const FreshSizes& sizes) {
    return plain(sizes).set("use_relative_position_bias", true);
  };
  return spec;
}

}  // namespace heed
