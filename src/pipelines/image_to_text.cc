#include "base/check.h"
#include "base/language.h"
#include "heed/io.h"
#include "pipelines/batches.h"
#include "pipelines/image_input.h"

namespace heed {
namespace {

/// Region features f32 [images, N, F].
Tensor load_features(const std::filesystem::path& file) {
  Tensor features;
  if (file.extension() == ".npy") {
    features = load_npy(file);
  } else {
    const TensorMap tensors = load_safetensors(file);
    const auto found = tensors.find("features");
    check_data(found != tensors.end(), file.native(), "has no tensor 'features'");
    features = found->second;
  }
  check_data(is_floating(features.dtype()) && (features.rank() == 2 || features.rank() == 3) &&
                 features.numel() > 0,
             file.native(),
             "is {} {}; floats [regions, size] or [images, regions, size] are wanted",
             name_of(features.dtype()), features.shape().to_string());
  const Tensor wide = cast(features, DType::f32);
  return features.rank() == 2 ? unsqueeze(wide, 0) : wide;
}

bool is_features(const std::filesystem::path& file) {
  return file.extension() == ".npy" || file.extension() == ".safetensors";
}

}  // namespace

ImageToText::ImageToText(LoadedModel model) : ModelPipeline(std::move(model)) {
  check_suits(loaded_.model->kind() == ModelKind::vision_decoder, kTask,
              say("an image-to-text model"), loaded_);
}

std::vector<ModelInput> ImageToText::inputs_of(const std::filesystem::path& file) const {
  const bool regions = model_spec(*loaded_.model).reads_features;
  if (regions != is_features(file)) {
    fail(ErrorKind::usage, file.native(), "this model reads {}",
         regions ? say("region features (.npy or .safetensors), not pictures")
                 : say("pictures (PNG or JPEG), not features"));
  }
  std::vector<ModelInput> inputs;
  if (!regions) {
    ModelInput input;
    input.pixel_values = model_pixels(vision_config(loaded_.model->config()), loaded_.path, file);
    inputs.push_back(std::move(input));
    return inputs;
  }
  const Tensor features = load_features(file);
  for (int64_t i = 0; i < features.size(0); ++i) {
    ModelInput input;
    input.features = slice(features, 0, i, i + 1);
    inputs.push_back(std::move(input));
  }
  return inputs;
}

std::vector<ScoredText> ImageToText::operator()(const std::filesystem::path& image,
                                                const CaptionOptions& options) const {
  const std::vector<ModelInput> inputs = inputs_of(image);
  check(inputs.size() == 1, kTask, "{} holds {} images; hand inputs_of() it to the other call",
        image.native(), inputs.size());
  return std::move((*this)(inputs, options).front());
}

std::vector<std::vector<ScoredText>> ImageToText::operator()(const std::vector<ModelInput>& images,
                                                             const CaptionOptions& options) const {
  const Model& model = *loaded_.model;
  Request rules;
  rules.max_tokens = options.beam.max_tokens;
  apply_generation_tokens(model, rules);
  std::vector<std::vector<ScoredText>> results(images.size());
  const std::vector<int64_t> lengths(images.size(), 1);
  for_each_batch(lengths, kTask, options.run, [&](const std::vector<size_t>& together) {
    std::vector<Request> requests(together.size(), rules);
    for (size_t i = 0; i < together.size(); ++i) {
      requests[i].encoder = images[together[i]];
    }
    const auto found = beam_search(model, requests, options.beam);
    for (size_t i = 0; i < together.size(); ++i) {
      for (const Hypothesis& each : found[i]) {
        ScoredText text{.score = each.score, .ids = {each.ids.begin(), each.ids.end()}};
        text.text = loaded_.tokenizer.decode(text.ids, true);
        results[together[i]].push_back(std::move(text));
      }
    }
  });
  return results;
}

}  // namespace heed
