#include <fmt/format.h>

#include <cmath>
#include <sstream>

#include "base/base64.h"
#include "explore/trace.h"
#include "heed/generate.h"
#include "heed/io.h"
#include "heed/ops.h"
#include "heed/tensor.h"
#include "models/forward.h"
#include "models/registry.h"
#include "pipelines/image_input.h"
#include "pipelines/speech_decoding.h"

namespace heed::explore {
namespace {

constexpr int64_t kMostGenerated = 64;

Tensor as_batch(const std::vector<TokenId>& ids) {
  return Tensor::from(ids, {1, static_cast<int64_t>(ids.size())});
}

LoadedModel as_loaded(const ExplorerModel& model) {
  return {model.path, model.model, model.tokenizer};
}

/// False for a bare model, which gives vectors.
bool writes_text(const Model& model) {
  const ModelHead* head = head_of(model);
  return head == nullptr || !head->task.empty();
}

/// What Whisper reads behind <|startoftranscript|>: language and task, and that no timestamps
/// follow.
std::vector<TokenId> speech_prompt(const ExplorerModel& model, const ModelInput& input) {
  const SpeechTokens tokens = speech_tokens(as_loaded(model));
  const NoGrad no_grad;
  const std::string language =
      tokens.languages.empty()
          ? "en"
          : detect_language(*model.model, tokens, model.model->encode(input)).first;
  std::vector<TokenId> ids;
  for (const int64_t id : start_of_transcript(tokens, language, "transcribe")) {
    ids.push_back(id);
  }
  ids.erase(ids.begin());  // the start token, which every decoder begins with
  if (tokens.no_timestamps >= 0) {
    ids.push_back(tokens.no_timestamps);
  }
  return ids;
}

/// The start token, `prompt` and what the model itself would write, the likeliest token at each
/// step.
std::vector<TokenId> likeliest_target(const ExplorerModel& explorer, const ModelInput& input,
                                      int64_t start, const std::vector<TokenId>& prompt) {
  const Model& model = *explorer.model;
  std::vector<TokenId> ids{start};
  ids.insert(ids.end(), prompt.begin(), prompt.end());
  Request request;
  request.encoder = input;
  request.max_tokens = kMostGenerated;
  apply_generation_tokens(model, request);
  if (!prompt.empty()) {
    request.prompt.assign(prompt.begin(), prompt.end());
    const SpeechTokens tokens = speech_tokens(as_loaded(explorer));
    request.suppress_tokens = tokens.suppressed;
    for (int64_t id = tokens.timestamp_begin(); id > 0 && id < model.vocab_size(); ++id) {
      request.suppress_tokens.push_back(id);
    }
  }
  const std::vector<int64_t> end = request.end;
  request.on_token = [&ids, &end,
                      context = model.decoder_context_length()](const SampledToken& choice) {
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

/// A picture to begin with: a bright disc on a dark ground.
Tensor example_picture(const VisionConfig& vision) {
  Tensor pixels = Tensor::zeros({1, vision.channels, vision.image.height, vision.image.width});
  const auto height = static_cast<double>(vision.image.height);
  const auto width = static_cast<double>(vision.image.width);
  float* out = pixels.data<float>();
  for (int64_t i = 0; i < pixels.numel(); ++i) {
    const int64_t x = i % vision.image.width;
    const int64_t y = i / vision.image.width % vision.image.height;
    const double dy = static_cast<double>(y) / height - 0.5;
    const double dx = static_cast<double>(x) / width - 0.5;
    out[i] = dx * dx + dy * dy < 0.09 ? 1.0F : -1.0F;
  }
  return pixels;
}

VisionConfig vision_of(const ExplorerModel& model) { return vision_config(model.model->config()); }

}  // namespace

Tensor image_input(const ExplorerModel& model, const std::optional<std::string>& image) {
  constexpr uint64_t kMostPixels = 32'000'000;
  if (model_spec(*model.model).reads_features) {
    throw Failure(409, "unsupported",
                  "this model reads features of image regions, which are no image", "model");
  }
  const VisionConfig vision = vision_of(model);
  if (!image) {
    return example_picture(vision);
  }
  const std::string bytes = decode_base64(*image, "image");
  return model_pixels(vision, model.path,
                      decode_image(bytes, "image", static_cast<int>(vision.channels), kMostPixels));
}

std::string seen_picture(const ExplorerModel& model, const Tensor& pixels) {
  const VisionConfig vision = vision_of(model);
  const int64_t height = pixels.size(2), width = pixels.size(3), plane = height * width;
  // What black and white become tells how the numbers were normalised.
  const auto level = [&](uint8_t value) {
    return model_pixels(vision, model.path,
                        Tensor::full({vision.channels, height, width}, value, DType::u8));
  };
  const Tensor black = level(0), white = level(255);
  const Tensor picture = Tensor::empty({height, width, 3}, DType::u8);
  for (int64_t c = 0; c < 3; ++c) {
    const int64_t at = std::min(c, vision.channels - 1) * plane;
    const double low = black.data<float>()[at], high = white.data<float>()[at];
    for (int64_t i = 0; i < plane; ++i) {
      const double share = (pixels.data<float>()[at + i] - low) / (high - low);
      picture.data<uint8_t>()[i * 3 + c] =
          static_cast<uint8_t>(std::lround(std::clamp(share, 0.0, 1.0) * 255.0));
    }
  }
  return encode_png(picture);
}

Tensor speech_input(const ExplorerModel& model, const std::optional<std::string>& audio) {
  constexpr int64_t kFramesPerPosition = 2;
  const Json& config = model.model->config();
  const int64_t frames =
      kFramesPerPosition * config.integer_or("max_source_positions", 1500, 1, 1 << 20);
  LogMelOptions mel;
  mel.mels = config.integer_or("num_mel_bins", 80, 1, 1 << 12);
  // One window, as the model reads it: silence behind what is there, the rest left out.
  const Tensor samples = Tensor::zeros({frames * mel.hop_length});
  if (audio) {
    const Tensor sound = decode_audio(decode_base64(*audio, "audio"), "audio");
    std::copy_n(sound.data<float>(), std::min(sound.numel(), samples.numel()),
                samples.data<float>());
  }
  const Tensor features = log_mel_spectrogram(samples, mel);
  return reshape(slice(features, 1, 0, frames), {1, mel.mels, frames}).contiguous();
}

void Trace::check_ids(const std::vector<TokenId>& ids, const char* param) const {
  const int64_t most = model_.model->vocab_size();
  const bool known =
      std::all_of(ids.begin(), ids.end(), [most](TokenId id) { return id >= 0 && id < most; });
  const int64_t context = model_.model->context_length();
  if (!known || (ids.empty() && std::string_view(param) == "ids")) {
    throw Failure(400, "invalid", fmt::format("'{}' must hold token ids of the model", param),
                  param);
  }
  if (context > 0 && std::cmp_greater(ids.size(), context)) {
    throw Failure(413, "too_large",
                  fmt::format("the text has {} tokens; the model takes {}", ids.size(), context),
                  param);
  }
}

void Trace::read_text(bool with_target) {
  if (!model_.tokenizer) {
    throw Failure(409, "unsupported", "this model has no tokenizer", "model");
  }
  if (request_.ids) {
    check_ids(*request_.ids, "ids");
    input_.input_ids = as_batch(*request_.ids);
    source_ = shown_tokens(model_.tokenizer, *request_.ids);
    return;
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
  offsets_ = encoding.offsets;
  if (request_.pair) {
    size_t before = model_.tokenizer.encode_ids(text, false).size();  // tokens of the first text
    for (; std::cmp_less(passage_, encoding.ids.size()); ++passage_) {
      const bool own = encoding.special_tokens_mask[static_cast<size_t>(passage_)] == 0;
      if (own && before-- == 0) {
        break;
      }
    }
  }
  if (request_.pair && reads_token_types(*model_.model)) {
    input_.token_type_ids = as_batch(encoding.type_ids);
  }
  if (model_spec(*model_.model).points_at_tokens) {
    // A reader is asked about the last "it" of the text, else about its last word.
    const std::vector<std::string> wanted =
        request_.ask ? std::vector{*request_.ask}
                     : std::vector<std::string>{"it", "It", "그것은", "그것이"};
    size_t asked = source_.size();
    for (size_t i = 0; i < source_.size(); ++i) {
      asked = std::find(wanted.begin(), wanted.end(), source_[i].label) != wanted.end() ? i : asked;
    }
    if (asked == source_.size() && request_.ask) {
      throw Failure(400, "invalid", fmt::format("the text has no word '{}'", *request_.ask), "ask");
    }
    asked = std::min(asked, source_.size() - 1);
    asked_ = static_cast<int64_t>(asked);
    input_.token_type_ids = Tensor::zeros({1, input_.input_ids.size(1)}, DType::i64);
    input_.token_type_ids.data<int64_t>()[asked] = 1;
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
  const bool speech = model_.model->kind() == ModelKind::speech_decoder;
  const std::vector<TokenId> prompt =
      speech ? speech_prompt(model_, input_) : std::vector<TokenId>();
  if (request_.target_ids) {
    check_ids(*request_.target_ids, "target_ids");
    ids.push_back(start);
    ids.insert(ids.end(), request_.target_ids->begin(), request_.target_ids->end());
  } else if (request_.target) {
    ids.push_back(start);
    ids.insert(ids.end(), prompt.begin(), prompt.end());
    model_.tokenizer.append_ids(*request_.target, ids);
  } else if (!writes_text(*model_.model)) {
    ids.push_back(start);
  } else {
    ids = likeliest_target(model_, input_, start, prompt);
    generated_ = true;
  }
  input_.decoder_input_ids = as_batch(ids);
  target_ = shown_tokens(model_.tokenizer, ids);
}

void Trace::add_source_as_target() {
  const Tensor ids = decoder_input_ids(*model_.model, input_);
  input_.decoder_input_ids = ids;
  const std::vector<int64_t> all = ids.to(DType::i64).to_vector<int64_t>();
  target_ = shown_tokens(model_.tokenizer, {all.begin(), all.end()});
  for (size_t i = 1; i < target_.size() && i <= source_.size(); ++i) {
    if (target_[i].id == source_[i - 1].id) {  // as the source names it: an unknown word by itself
      target_[i] = source_[i - 1];
      ++target_[i].group;
    }
  }
}

void Trace::read_texts() {
  if (!model_.tokenizer) {
    throw Failure(409, "unsupported", "this model has no tokenizer", "model");
  }
  std::istringstream lines(request_.text.value_or(""));
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) {
      texts_.push_back(line);
    }
  }
  if (texts_.empty()) {
    throw Failure(400, "invalid", "'text' is missing", "text");
  }
  for (const std::string& text : texts_) {
    check_ids(model_.tokenizer.encode(text).ids, "text");
  }
  const Encoding encoding = model_.tokenizer.encode(texts_.front());
  input_.input_ids = as_batch(encoding.ids);
  target_ = shown_tokens(model_.tokenizer, encoding, texts_.front());
}

Tensor Trace::logits_per_text(const ModelOutput& output) const {
  std::vector<Tensor> logits{output.logits_per_image.to(DType::f32)};
  // The others are no part of this pass: changes of the first text leave them as they are.
  const auto parameter = [this](const std::string& name) {
    for (const Parameter& each : model_.model->parameters()) {
      if (each.name == name) {
        return each.tensor.to(DType::f32).to_doubles().front();
      }
    }
    return 0.0;
  };
  const double scale = std::exp(parameter("logit_scale")), bias = parameter("logit_bias");
  const NoGrad no_grad;
  for (size_t i = 1; i < texts_.size(); ++i) {
    ModelInput alone;
    alone.input_ids = as_batch(model_.tokenizer.encode(texts_[i]).ids);
    const Tensor text = model_.model->forward(alone).text_embeds.to(DType::f32);
    const Tensor fit = matmul(output.image_embeds.to(DType::f32), transpose(text));
    logits.push_back(add(mul(fit, scale), bias));
  }
  return concat(logits, 1);
}

void Trace::read_input() {
  const ModelHead* head = head_of(*model_.model);
  finds_replaced_ = head != nullptr && head->architecture.ends_with("ForPreTraining");
  switch (model_.model->kind()) {
    case ModelKind::decoder:
    case ModelKind::encoder:
      read_text(false);
      if (decoder_input_ids(*model_.model, input_).defined()) {
        add_source_as_target();
      }
      break;
    case ModelKind::encoder_decoder:
      read_text(true);
      if (!request_.target && !request_.target_ids && !writes_text(*model_.model) &&
          decoder_input_ids(*model_.model, input_).defined()) {
        add_source_as_target();
      } else {
        add_target();
      }
      break;
    case ModelKind::vision:
      input_.pixel_values = image_input(model_, request_.image);
      break;
    case ModelKind::vision_decoder:
      input_.pixel_values = image_input(model_, request_.image);
      add_target();
      break;
    case ModelKind::speech_decoder:
      input_.input_features = speech_input(model_, request_.audio);
      add_target();
      break;
    case ModelKind::image_text:
      input_.pixel_values = image_input(model_, request_.image);
      read_texts();
      break;
    case ModelKind::regressor:
      read_numbers();
      break;
  }
}

ModelInput Trace::repeated(int64_t copies) const {
  ModelInput input = input_;
  for (Tensor* tensor :
       {&input.input_ids, &input.token_type_ids, &input.decoder_input_ids, &input.pixel_values,
        &input.input_features, &input.features, &input.decoder_features}) {
    if (tensor->defined() && copies > 1) {
      *tensor = concat(std::vector<Tensor>(static_cast<size_t>(copies), *tensor), 0);
    }
  }
  return input;
}

}  // namespace heed::explore
