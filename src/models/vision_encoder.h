#pragma once

#include "models/encoder.h"
#include "models/patch_grid.h"

namespace heed {

/// What a ViT-like model is made of: a family's config.json, read once.
struct VisionEncoderConfig {
  EncoderConfig layers;  ///< family, sizes and names of the blocks; pre-norm
  Grid image, patch;
  int64_t channels = 3;
  std::string base;                 ///< prefix of the body: "deit"
  std::vector<std::string> tokens;  ///< in front of the patches: "cls_token", "distillation_token"
  int64_t registers = 0;            ///< tokens without positions between these and the patches
  bool positions = true;            ///< learned, one for each token and patch
  bool mask_token = false;          ///< a parameter of pre-training that is kept and not read
  std::string final_norm = "layernorm";
  std::string pooler;  ///< of the first token's row: "pooler.dense"
  Activation pooler_activation = Activation::tanh;
  bool first_is_pooled = false;        ///< the first token's row is the pooler's result (DINOv2)
  bool mean_norm = false;              ///< mean of the patches, then "pooler.layernorm" (BEiT)
  bool classifier_reads_mean = false;  ///< first token and mean of the patches side by side
  bool two_classifiers = false;        ///< the mean of cls_classifier and distillation_classifier
  bool relative_bias = false;          ///< a table of relative positions in every layer (BEiT)
  bool shared_relative_bias = false;   ///< one table for all layers
  bool last_hidden_is_normed = false;
};

/// Reads what ViT-like configurations have in common.
VisionEncoderConfig vit_like_config(const Json& config, const std::string& family,
                                    const std::string& base);
std::unique_ptr<Model> make_vision_encoder(const Json& config, const Scope& scope,
                                           const VisionEncoderConfig& vision);
ModelSpec vit_like_spec(const std::string& model_type, const std::string& family,
                        const std::string& base,
                        const std::function<VisionEncoderConfig(const Json& config)>& read);

}  // namespace heed
