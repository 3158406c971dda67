#include "models/image_text.h"
#include "models/registry.h"

namespace heed {
namespace {

constexpr const char* kFamily = "Siglip";

/// SigLIP: towers that see both ways, the text's last row and a learned query over the patches,
/// without a projection; a sigmoid for every pair.
ImageTextConfig siglip_config(const Json& config, ImageTextPart part) {
  const Json nothing = Json::parse("{}", config.file());
  const auto side = [&](const char* name) {
    return part == ImageTextPart::both ? config.find(name).value_or(nothing) : config;
  };
  const TowerDefaults defaults{768, 3072, 12, "gelu_pytorch_tanh", 1e-6};
  ImageTextConfig c;
  c.family = kFamily;
  c.sigmoid_loss = true;
  if (part != ImageTextPart::image) {
    const Json text = side("text_config");
    EncoderConfig& l = c.text.layers;
    l = tower_layers(text, kFamily, defaults);
    l.vocab_size = size_or(text, "vocab_size", 32000);
    l.context_length = size_or(text, "max_position_embeddings", 64);
    c.text.head_size = size_or(text, "projection_size", l.hidden_size);
  }
  if (part != ImageTextPart::text) {
    const Json image = side("vision_config");
    c.image.layers = tower_layers(image, kFamily, defaults);
    c.image.image = image.has("image_size") ? sides(image, "image_size") : Grid{224, 224};
    c.image.patch = image.has("patch_size") ? sides(image, "patch_size") : Grid{16, 16};
    c.image.channels = size_or(image, "num_channels", 3);
    c.image.class_token = c.image.pre_norm = false;
    c.image.patch_bias = c.image.norm_all = true;
    c.image.attention_pool = image.boolean_or("vision_use_head", true);
  }
  return c;
}

}  // namespace

ModelSpec siglip_spec() {
  return image_text_spec("siglip", kFamily, ImageTextPart::both, siglip_config);
}

ModelSpec siglip_text_model_spec() {
  return image_text_spec("siglip_text_model", kFamily, ImageTextPart::text, siglip_config);
}

ModelSpec siglip_vision_model_spec() {
  return image_text_spec("siglip_vision_model", kFamily, ImageTextPart::image, siglip_config);
}

}  // namespace heed
