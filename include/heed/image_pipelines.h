#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "heed/text_pipelines.h"

// Pipelines that read images: image-classification, zero-shot-image-classification, image-to-text.

namespace heed {

/// Labels images: files (PNG, JPEG, netpbm) prepared as preprocessor_config.json asks.
class HEED_API ImageClassification {
 public:
  static constexpr std::string_view kTask = "image-classification";
  using Options = ClassificationOptions;

  explicit ImageClassification(const std::filesystem::path& model, const OpenOptions& options = {});
  explicit ImageClassification(LoadedModel model);

  std::vector<LabelScore> operator()(const std::filesystem::path& image,
                                     const ClassificationOptions& options = {}) const;
  std::vector<std::vector<LabelScore>> operator()(const std::vector<std::filesystem::path>& images,
                                                  const ClassificationOptions& options = {}) const;
  const LoadedModel& loaded() const { return loaded_; }

 private:
  LoadedModel loaded_;
};

struct ZeroShotOptions {
  std::vector<std::string> labels;  ///< what an image may show: "a cat", "a dog"
  /// The text that is compared with an image; {} stands for a label.
  std::string hypothesis_template = "This is a photo of {}.";
  int64_t top_k = 0;  ///< only the k best labels; 0: all
  RunOptions run = {};
};

/// Labels images with texts that the model was not trained for, by comparing both (CLIP, SigLIP).
/// Scores come from a softmax over the labels, or label by label from a sigmoid (SigLIP).
class HEED_API ZeroShotImageClassification {
 public:
  static constexpr std::string_view kTask = "zero-shot-image-classification";
  using Options = ZeroShotOptions;

  explicit ZeroShotImageClassification(const std::filesystem::path& model,
                                       const OpenOptions& options = {});
  explicit ZeroShotImageClassification(LoadedModel model);

  std::vector<LabelScore> operator()(const std::filesystem::path& image,
                                     const ZeroShotOptions& options) const;
  std::vector<std::vector<LabelScore>> operator()(const std::vector<std::filesystem::path>& images,
                                                  const ZeroShotOptions& options) const;
  const LoadedModel& loaded() const { return loaded_; }

 private:
  LoadedModel loaded_;
};

struct CaptionOptions {
  BeamOptions beam = {.beams = 1, .max_tokens = 64};
  RunOptions run = {.batch_size = 8};
};

/// Describes images in words. Some models read image files, others features of image regions:
/// floats [regions, F] or [images, regions, F] from a .npy, or from the tensor `features` of a
/// .safetensors.
class HEED_API ImageToText {
 public:
  static constexpr std::string_view kTask = "image-to-text";
  using Options = CaptionOptions;

  explicit ImageToText(const std::filesystem::path& model, const OpenOptions& options = {});
  explicit ImageToText(LoadedModel model);

  /// The images of a file as the model reads them: one, or as many as there are features of.
  std::vector<ModelInput> inputs_of(const std::filesystem::path& file) const;
  std::vector<ScoredText> operator()(const std::filesystem::path& image,
                                     const CaptionOptions& options = {}) const;
  std::vector<std::vector<ScoredText>> operator()(const std::vector<ModelInput>& images,
                                                  const CaptionOptions& options = {}) const;
  const LoadedModel& loaded() const { return loaded_; }

 private:
  LoadedModel loaded_;
};

}  // namespace heed
