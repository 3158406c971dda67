#include "models/image_text.h"
#include "models/registry.h"

namespace heed {
namespace {

constexpr const char* kFamily = "CLIP";

/// A side's configuration: the whole file of a tower, or a part of it. Old files repeat it as
/// text_config_dict, which counts.
Json side_of(const Json& config, const std::string& side, ImageTextPart part) {
  if (part != ImageTextPart::both) {
    return config;
  }
  const auto old = config.find(side + "_config_dict");
  if (old && old->is_object()) {
    return *old;
  }
  return config.find(side + "_config").value_or(Json::parse("{}", config.file()));
}

/// CLIP: a causal text tower whose end token stands for the text, a ViT with a norm in front of its
/// blocks, and a projection of both.
ImageTextConfig clip_config(const Json& config, ImageTextPart part) {
  ImageTextConfig c;
  c.family = kFamily;
  if (part != ImageTextPart::image) {
    const Json text = side_of(config, "text", part);
    EncoderConfig& l = c.text.layers;
    l = tower_layers(text, kFamily, {512, 2048, 8, "quick_gelu", 1e-5});
    l.vocab_size = size_or(text, "vocab_size", 49408);
    l.context_length = size_or(text, "max_position_embeddings", 77);
    l.causal = true;
    c.text.end_token = text.integer_or("eos_token_id", 49407, 0, int64_t{1} << 31);
    c.projection_size = size_or(text, "projection_dim", 512);
  }
  if (part != ImageTextPart::text) {
    const Json image = side_of(config, "vision", part);
    c.image.layers = tower_layers(image, kFamily, {768, 3072, 12, "quick_gelu", 1e-5});
    c.image.image = image.has("image_size") ? sides(image, "image_size") : Grid{224, 224};
    c.image.patch = image.has("patch_size") ? sides(image, "patch_size") : Grid{32, 32};
    c.image.channels = size_or(image, "num_channels", 3);
    c.projection_size = size_or(image, "projection_dim", 512);
  }
  if (part == ImageTextPart::both) {
    c.projection_size = size_or(config, "projection_dim", 512);
    c.scale_start = config.number_or("logit_scale_init_value", 2.6592, -100.0, 100.0);
  }
  return c;
}

}  // namespace

ModelSpec clip_spec() { return image_text_spec("clip", kFamily, ImageTextPart::both, clip_config); }

ModelSpec clip_text_model_spec() {
  return image_text_spec("clip_text_model", kFamily, ImageTextPart::text, clip_config);
}

ModelSpec clip_vision_model_spec() {
  return image_text_spec("clip_vision_model", kFamily, ImageTextPart::image, clip_config);
}

}  // namespace heed
