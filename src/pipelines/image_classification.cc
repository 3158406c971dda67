#include "base/check.h"
#include "base/language.h"
#include "heed/tensor.h"
#include "pipelines/batches.h"
#include "pipelines/image_input.h"
#include "pipelines/labels.h"

namespace heed {
namespace {

constexpr std::string_view kNeeds = say("a model of images with a classification head");

}  // namespace

ImageClassification::ImageClassification(LoadedModel model) : ModelPipeline(std::move(model)) {
  check_suits(loaded_.model->kind() == ModelKind::vision, kTask, kNeeds, loaded_);
}

std::vector<LabelScore> ImageClassification::operator()(
    const std::filesystem::path& image, const ClassificationOptions& options) const {
  return std::move((*this)(std::vector<std::filesystem::path>{image}, options).front());
}

std::vector<std::vector<LabelScore>> ImageClassification::operator()(
    const std::vector<std::filesystem::path>& images, const ClassificationOptions& options) const {
  const NoGrad no_grad;
  const VisionConfig vision = vision_config(loaded_.model->config());
  std::vector<std::vector<LabelScore>> results(images.size());
  const std::vector<int64_t> lengths(images.size(), 1);
  for_each_batch(lengths, kTask, options.run, [&](const std::vector<size_t>& together) {
    const ReadableImages readable =
        read_images(vision, loaded_.path, images, together, options.run);
    if (readable.inputs.empty()) {
      return;
    }
    ModelInput input;
    input.pixel_values = readable.pixels;
    const Tensor logits = loaded_.model->forward(input).logits;
    check_suits(logits.defined() && logits.rank() == 2, kTask, kNeeds, loaded_);
    const Labels labels(*loaded_.model, logits.size(1));
    const Tensor rows = logits.to(DType::f32).contiguous();
    for (size_t i = 0; i < readable.inputs.size(); ++i) {
      results[readable.inputs[i]] =
          labels.scores(rows.data<float>() + static_cast<int64_t>(i) * rows.size(1), options.top_k);
    }
  });
  return results;
}

}  // namespace heed
