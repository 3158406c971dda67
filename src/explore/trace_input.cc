#include "base/base64.h"
#include "explore/trace.h"
#include "heed/generate.h"
#include "heed/image.h"
#include "heed/ops.h"
#include "pipelines/image_input.h"

namespace heed::explore {
namespace {

constexpr int64_t kMostGenerated = 64;

Tensor as_batch(const std::vector<TokenId>& ids) {
  return Tensor::from(ids, {1, static_cast<int64_t>(ids.size())});
}

/// The start token and what the model itself would write, the likeliest token at each step.
std::vector<TokenId> likeliest_target(const Model& model, const ModelInput& input, int64_t start) {
  std::vector<TokenId> ids{start};
  Request request;
  request.encoder = input;
  request.max_tokens = kMostGenerated;
  apply_generation_tokens(model, request);
  const std::vector<int64_t> end = request.end;
  request.on_token = [&ids, &end, context = model.decoder_context_length()](const SampledToken& choice) {
    const bool ends = std::find(end.begin(), end.end(), choice.id) != end.end();
    if (!ends && (context == 0 || std::cmp_less(ids.size(), context))) {
      ids.push_back(choice.id);
    }
    return true;
  };
  Scheduler scheduler(model, 1);
  scheduler.add(std::move(request));
  scheduler.run();
  return ids;
}

}  // namespace

void Trace::read_text(bool with_target) {
  if (!model_.tokenizer) {
    throw Failure(409, "unsupported", "this model has no tokenizer", "model");
  }
  if (!request_.text) {
    throw Failure(400, "invalid", "'text' is missing", "text");
  }
  const std::string& text = *request_.text;
  const Encoding encoding = request_.pair ? model_.tokenizer.encode_pair(text, *request_.pair)
                                          : model_.tokenizer.encode(text);
  if (encoding.ids.empty()) {
    throw Failure(400, "invalid", "the text has no tokens", "text");
  }
  const int64_t context = model_.model->context_length();
  if (context > 0 && std::cmp_greater(encoding.ids.size(), context) && !with_target) {
    throw Failure(
        413, "too_large",
        fmt::format("the text has {} tokens; the model takes {}", encoding.ids.size(), context),
        "text");
  }
  input_.input_ids = as_batch(encoding.ids);
  source_ = shown_tokens(model_.tokenizer, encoding, text);
  const bool segments = Json::parse(model_.model->config(), "config.json")
                            .integer_or("type_vocab_size", 0, 0, 1 << 20) > 1;
  if (request_.pair && segments) {
    input_.token_type_ids = as_batch(encoding.type_ids);
  }
  if (model_.model->model_type() == "heed-reader") {
    // A reader is asked about the last "it" of the text, else about its last word.
    size_t asked = source_.size() - 1;
    for (size_t i = 0; i < source_.size(); ++i) {
      for (const char* word : {"it", "It", "그것은", "그것이"}) {
        asked = source_[i].label == word ? i : asked;
      }
    }
    input_.token_type_ids = Tensor::zeros({1, input_.input_ids.size(1)}, DType::i64);
    input_.token_type_ids.data<int64_t>()[asked] = 1;
  }
}

void Trace::read_image() {
  const VisionConfig vision = vision_config(Json::parse(model_.model->config(), "config.json"));
  Tensor pixels;
  if (request_.image) {
    const std::string bytes = decode_base64(*request_.image, "image");
    pixels = model_pixels(vision, model_.path,
                          decode_image(bytes, "image", static_cast<int>(vision.channels)));
  } else {
    // A picture to begin with: a bright disc on a dark ground.
    pixels = Tensor::zeros({1, vision.channels, vision.image.height, vision.image.width});
    const auto height = static_cast<double>(vision.image.height);
    const auto width = static_cast<double>(vision.image.width);
    for (int64_t c = 0; c < vision.channels; ++c) {
      for (int64_t y = 0; y < vision.image.height; ++y) {
        for (int64_t x = 0; x < vision.image.width; ++x) {
          const double dy = static_cast<double>(y) / height - 0.5;
          const double dx = static_cast<double>(x) / width - 0.5;
          pixels.data<float>()[(c * vision.image.height + y) * vision.image.width + x] =
              dx * dx + dy * dy < 0.09 ? 1.0F : -1.0F;
        }
      }
    }
  }
  input_.pixel_values = pixels;
}

void Trace::name_patches() {
  const VisionConfig vision = vision_config(Json::parse(model_.model->config(), "config.json"));
  const int64_t columns = vision.image.width / vision.patch.width;
  const int64_t patches = vision.image.height / vision.patch.height * columns;
  const int64_t count =
      rows_of(has_target() ? "encoder.blocks.0.hook_resid_pre" : "blocks.0.hook_resid_pre");
  const int64_t first = count - patches;  // [CLS], and DeiT's token of distillation
  for (int64_t i = 0; i < count; ++i) {
    ShownToken token;
    token.special = i < first;
    token.label = i == 0 && first > 0 ? "[CLS]"
                  : i < first         ? fmt::format("[{}]", i)
                              : fmt::format("{},{}", (i - first) / columns, (i - first) % columns);
    token.group = i;
    source_.push_back(std::move(token));
  }
}

void Trace::add_target() {
  if (!model_.tokenizer) {
    throw Failure(409, "unsupported", "this model has no tokenizer", "model");
  }
  const int64_t start = generation_tokens(*model_.model).decoder_start;
  if (start < 0) {
    throw Failure(409, "unsupported", "config.json names no decoder_start_token_id", "model");
  }
  std::vector<TokenId> ids;
  if (request_.target) {
    ids.push_back(start);
    model_.tokenizer.append_ids(*request_.target, ids);
  } else {
    ids = likeliest_target(*model_.model, input_, start);
    generated_ = true;
  }
  input_.decoder_input_ids = as_batch(ids);
  target_ = shown_tokens(model_.tokenizer, ids);
}

void Trace::read_input() {
  switch (model_.model->kind()) {
    case ModelKind::decoder:
    case ModelKind::encoder:
      read_text(false);
      break;
    case ModelKind::encoder_decoder:
      read_text(true);
      add_target();
      break;
    case ModelKind::vision:
      read_image();
      break;
    case ModelKind::vision_decoder:
      read_image();
      add_target();
      break;
    case ModelKind::speech_decoder:
      throw Failure(409, "unsupported", "speech cannot be traced yet", "model");
    case ModelKind::image_text:
      throw Failure(409, "unsupported",
                    "a comparison of images and texts cannot be traced yet", "model");
    case ModelKind::regressor:
      throw Failure(409, "unsupported", "this model reads numbers, not text or images", "model");
  }
}

ModelInput Trace::repeated(int64_t copies) const {
  ModelInput input = input_;
  for (Tensor* tensor : {&input.input_ids, &input.token_type_ids, &input.decoder_input_ids,
                         &input.pixel_values, &input.features}) {
    if (tensor->defined() && copies > 1) {
      *tensor = concat(std::vector<Tensor>(static_cast<size_t>(copies), *tensor), 0);
    }
  }
  return input;
}

}  // namespace heed::explore
