#include "models/registry.h"
#include "models/vision_encoder.h"

namespace heed {
namespace {

/// DeiT: ViT with a distillation token beside the class token.
VisionEncoderConfig deit_config(const Json& config) {
  VisionEncoderConfig c = vit_like_config(config, "DeiT", "deit");
  c.tokens = {"cls_token", "distillation_token"};
  c.pooler = "pooler.dense";
  c.pooler_activation = activation_of(config, "pooler_act", "tanh");
  c.two_classifiers = architecture(config) == "DeiTForImageClassificationWithTeacher";
  return c;
}

}  // namespace

ModelSpec deit_spec() {
  ModelSpec spec = vit_like_spec("deit", "DeiT", "deit", deit_config);
  spec.heads.insert(spec.heads.begin(), {"DeiTForImageClassificationWithTeacher",
                                         "image-classification", "distillation_classifier."});
  return spec;
}

}  // namespace heed
