#pragma once

#include "models/encoder.h"
#include "models/patch_grid.h"

namespace heed {

/// The tower of an image-text model that reads tokens.
struct TextTowerConfig {
  EncoderConfig layers;  ///< sizes and names of the blocks; pre-norm
  /// The token whose row stands for the text, where it comes first; 2: the row of the largest id,
  /// as CLIP's first files have it. Nothing: the last row, padding or not (SigLIP).
  std::optional<int64_t> end_token;
  int64_t head_size = 0;  ///< of the layer behind that row; 0: there is none
};

/// The tower that reads an image.
struct ImageTowerConfig {
  EncoderConfig layers;
  Grid image, patch;
  int64_t channels = 3;
  bool class_token = true;  ///< whose row stands for the image
  bool patch_bias = false;
  bool pre_norm = true;         ///< "pre_layrnorm", behind the embeddings
  bool norm_all = false;        ///< post_layernorm over all rows, or of the first one only
  bool attention_pool = false;  ///< a learned query over all rows stands for the image (SigLIP)
};

/// One family of image-text models.
struct ImageTextConfig {
  std::string family;  ///< "CLIP": in front of the class names
  TextTowerConfig text;
  ImageTowerConfig image;
  int64_t projection_size = 0;  ///< of text_projection and visual_projection; 0: none
  bool sigmoid_loss = false;    ///< each pair by itself (SigLIP), or a softmax over the batch
  double scale_start = 2.6592;  ///< of logit_scale
};

/// What the blocks of both towers have in common, read from text_config or vision_config; sizes
/// that it does not mention are `defaults`.
struct TowerDefaults {
  int64_t hidden_size, intermediate_size, num_heads;
  const char* activation;
  double eps;
};
EncoderConfig tower_layers(const Json& config, const std::string& family,
                           const TowerDefaults& defaults);

/// Which part of an image-text model a file holds.
enum class ImageTextPart { both, text, image };
std::unique_ptr<Model> make_image_text(const Json& config, const Scope& root,
                                       const ImageTextConfig& family, ImageTextPart part);

/// The descriptions of a family's whole model and of its two towers alone.
using ImageTextReader = std::function<ImageTextConfig(const Json& config, ImageTextPart part)>;
ModelSpec image_text_spec(const std::string& model_type, const std::string& family,
                          ImageTextPart part, const ImageTextReader& read);

}  // namespace heed
