#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "heed/generate.h"
#include "heed/inspect_run.h"
#include "heed/io.h"
#include "heed/ops.h"
#include "heed/tensor.h"
#include "models/forward.h"
#include "pipelines/image_input.h"

namespace heed::app {
namespace {

constexpr int64_t kMostGenerated = 64;

Tensor as_row(const std::vector<TokenId>& ids) {
  return Tensor::from(ids, {1, static_cast<int64_t>(ids.size())});
}

void need_tokenizer(const Tokenizer& tokenizer, const InspectOptions& options) {
  if (!tokenizer) {
    fail(ErrorKind::usage, options.model, "has no tokenizer; name one with --tokenizer");
  }
}

/// Which ids are control tokens: they leave no text behind. An unknown word or a mask is no such
/// token: it stands for a word.
std::vector<bool> special_positions(const std::vector<TokenId>& ids, const Tokenizer& tokenizer) {
  const SpecialTokens& known = tokenizer.special();
  std::vector<bool> special;
  for (const TokenId id : ids) {
    const bool stands_for_a_word = id == known.mask || id == known.unk;
    const std::span<const TokenId> one(&id, 1);
    special.push_back(!stands_for_a_word && tokenizer.decode(one, true).empty() &&
                      !tokenizer.decode(one, false).empty());
  }
  return special;
}

/// Marks the word that a reader is asked about: the last that is the word given, else "it".
void mark_query(const InspectOptions& options, InspectInput& result) {
  const std::vector<std::string> wanted =
      options.ask.empty() ? std::vector<std::string>{"it", "It", "그것은", "그것이"}
                          : std::vector<std::string>{options.ask};
  const auto found =
      std::find_if(result.source.rbegin(), result.source.rend(), [&](const std::string& label) {
        return std::find(wanted.begin(), wanted.end(), label) != wanted.end();
      });
  if (found == result.source.rend()) {
    fail(ErrorKind::usage, "inspect", "the text has no {}; name the word to ask about with --ask",
         quote(wanted.front()));
  }
  result.asked = *found;
  const auto length = static_cast<int64_t>(result.source.size());
  result.input.token_type_ids = Tensor::zeros({1, length}, DType::i64);
  result.asked_place = result.source.rend() - found - 1;
  result.input.token_type_ids.data<int64_t>()[result.asked_place] = 1;
}

void read_text(const Model& model, const Tokenizer& tokenizer, const InspectOptions& options,
               InspectInput& result) {
  need_tokenizer(tokenizer, options);
  if (!options.text) {
    fail(ErrorKind::usage, "inspect", "a {} model needs --text", model.model_type());
  }
  const bool pair = !options.text_pair.empty();
  const Encoding encoding = pair ? tokenizer.encode_pair(*options.text, options.text_pair)
                                 : tokenizer.encode(*options.text);
  if (encoding.ids.empty()) {
    fail(ErrorKind::usage, "inspect", "the text has no tokens");
  }
  result.input.input_ids = as_row(encoding.ids);
  if (pair && reads_token_types(model)) {
    result.input.token_type_ids = as_row(encoding.type_ids);
  }
  result.source = token_labels(encoding, *options.text);
  result.source_special = special_positions(encoding.ids, tokenizer);
  if (model_spec(model).points_at_tokens) {
    mark_query(options, result);
  }
}

void read_image(const Model& model, const Json& config, const InspectOptions& options,
                InspectInput& result) {
  if (options.image.empty()) {
    fail(ErrorKind::usage, "inspect", "this model needs --image FILE");
  }
  const VisionConfig vision = vision_config(config);
  const ImageSize size = vision.image;
  result.input.pixel_values = model_pixels(vision, options.model, options.image);
  const Tensor shown = resize_image(load_image(options.image, 3), size.height, size.width);
  result.image =
      shown.alias({size.height, size.width, 3}, {size.width, 1, size.height * size.width}, 0)
          .contiguous();
  const bool windows = vision.window > 0;
  result.vision = vision;
  const StageGrid grid = stage_grid(vision, 0);
  result.patch_rows = grid.rows;
  result.patch_columns = grid.columns;
  // Behind the tokens that stand for the whole image, where there are any.
  const int64_t patches = result.patch_rows * result.patch_columns;
  const bool alone = model.kind() == ModelKind::vision;
  result.first_patch = windows ? 0
                       : alone ? std::max<int64_t>(model.context_length() - patches, 0)
                               : 1;
  for (int64_t i = 0; i < result.first_patch; ++i) {
    result.source.push_back(i == 0 ? "[CLS]" : fmt::format("[{}]", i));
  }
  for (int64_t r = 0; r < result.patch_rows; ++r) {
    for (int64_t c = 0; c < result.patch_columns; ++c) {
      result.source.push_back(fmt::format("{},{}", r, c));
    }
  }
}

/// The spectrogram as a picture, dark where it is loud: u8 [2 · mels, frames, 3].
Tensor spectrogram_picture(const Tensor& mel, int64_t frames) {
  constexpr int64_t kRows = 2;  // pixels of a band
  const int64_t bands = mel.size(0), all = mel.size(1);
  const float* values = mel.data<float>();
  float low = values[0], high = values[0];
  for (int64_t i = 0; i < mel.numel(); ++i) {
    low = std::min(low, values[i]);
    high = std::max(high, values[i]);
  }
  Tensor picture = Tensor::empty({kRows * bands, frames, 3}, DType::u8);
  uint8_t* out = picture.data<uint8_t>();
  for (int64_t y = 0; y < kRows * bands; ++y) {
    const float* band = values + (bands - 1 - y / kRows) * all;
    for (int64_t x = 0; x < frames; ++x) {
      const float loud = high > low ? (band[x] - low) / (high - low) : 0.0F;
      out = std::fill_n(out, 3, static_cast<uint8_t>(255.0F * (1.0F - loud)));
    }
  }
  return picture;
}

void read_audio(const Json& config, const InspectOptions& options, InspectInput& result) {
  if (options.audio.empty()) {
    fail(ErrorKind::usage, "inspect", "this model needs --audio FILE");
  }
  constexpr int64_t kFramesPerPosition = 2;
  constexpr double kSecondsPerPosition = 0.02;
  LogMelOptions mel;
  mel.mels = config.integer_or("num_mel_bins", 80, 1, 1 << 12);
  const int64_t positions = config.integer_or("max_source_positions", 1500, 1, 1 << 20);
  const int64_t wanted = kFramesPerPosition * positions * mel.hop_length;
  const Tensor samples = load_audio(options.audio, mel.sample_rate, wanted);
  const int64_t used = samples.numel();
  Tensor window = Tensor::zeros({wanted});
  std::copy_n(samples.data<float>(), used, window.data<float>());
  const Tensor features = log_mel_spectrogram(window, mel).contiguous();
  result.input.input_features = reshape(features, {1, features.size(0), features.size(1)});
  const int64_t frames = std::clamp<int64_t>(used / mel.hop_length, 1, features.size(1));
  result.patch_rows = 1;
  result.patch_columns = std::max<int64_t>(frames / kFramesPerPosition, 1);
  result.image = spectrogram_picture(features, result.patch_columns * kFramesPerPosition);
  for (int64_t i = 0; i < positions; ++i) {
    result.source.push_back(fmt::format("{:.2f}s", kSecondsPerPosition * static_cast<double>(i)));
  }
}

/// What a multilingual speech model's text begins with: the likeliest language, the task, and that
/// there are no timestamps.
std::vector<TokenId> speech_prompt(const Model& model, const Tokenizer& tokenizer,
                                   const ModelInput& given, int64_t start) {
  std::vector<TokenId> prompt{start};
  ModelInput input = given;
  input.decoder_input_ids = as_row(prompt);
  const NoGrad no_grad;
  const std::vector<double> logits = model.forward(input).logits.to_doubles();
  TokenId best = -1;
  for (TokenId id = 0; std::cmp_less(id, logits.size()); ++id) {
    const std::string name = tokenizer.id_to_token(id);
    const bool language =
        name.size() >= 6 && name.size() <= 7 && name.starts_with("<|") && name.ends_with("|>") &&
        std::all_of(name.begin() + 2, name.end() - 2, [](char c) { return c >= 'a' && c <= 'z'; });
    if (language &&
        (best < 0 || logits[static_cast<size_t>(id)] > logits[static_cast<size_t>(best)])) {
      best = id;
    }
  }
  if (best >= 0) {
    prompt.push_back(best);
  }
  for (const char* token : {"<|transcribe|>", "<|notimestamps|>"}) {
    const auto id = tokenizer.token_to_id(token);
    if (id && (best >= 0 || std::string_view(token) == "<|notimestamps|>")) {
      prompt.push_back(*id);
    }
  }
  return prompt;
}

/// The start token and what the model itself would write, the most likely token at each step.
std::vector<TokenId> most_likely(const Model& model, const ModelInput& input,
                                 std::vector<TokenId> ids) {
  Request request;
  request.encoder = input;
  request.prompt.assign(ids.begin() + 1, ids.end());  // the model adds the start token itself
  request.max_tokens = kMostGenerated;
  apply_generation_tokens(model, request);
  request.on_token = [&ids, &request,
                      context = model.decoder_context_length()](const SampledToken& choice) {
    const bool ends =
        std::find(request.end.begin(), request.end.end(), choice.id) != request.end.end();
    const bool full = context > 0 && std::cmp_greater_equal(ids.size(), context);
    if (!ends && !full) {
      ids.push_back(choice.id);
    }
    return true;
  };
  Scheduler scheduler(model, 1);
  scheduler.add(request);
  scheduler.run();
  return ids;
}

void read_target(const Model& model, const Tokenizer& tokenizer, const InspectOptions& options,
                 InspectInput& result) {
  need_tokenizer(tokenizer, options);
  const int64_t start = generation_tokens(model).decoder_start;
  check_data(start >= 0, options.model, "config.json names no decoder_start_token_id");
  std::vector<TokenId> ids{start};
  if (model.kind() == ModelKind::speech_decoder) {
    ids = speech_prompt(model, tokenizer, result.input, start);
  }
  if (options.target.empty()) {
    ids = most_likely(model, result.input, ids);
  } else {
    tokenizer.append_ids(options.target, ids);
  }
  result.input.decoder_input_ids = as_row(ids);
  result.target = token_labels(ids, tokenizer);
  result.target_special = special_positions(ids, tokenizer);
}

}  // namespace

InspectInput inspect_input(const Model& model, const Tokenizer& tokenizer,
                           const InspectOptions& options) {
  const Json& config = model.config();
  InspectInput result;
  switch (model.kind()) {
    case ModelKind::decoder:
    case ModelKind::encoder:
      read_text(model, tokenizer, options, result);
      break;
    case ModelKind::encoder_decoder:
      read_text(model, tokenizer, options, result);
      read_target(model, tokenizer, options, result);
      break;
    case ModelKind::vision:
      read_image(model, config, options, result);
      break;
    case ModelKind::vision_decoder:
      read_image(model, config, options, result);
      read_target(model, tokenizer, options, result);
      break;
    case ModelKind::speech_decoder:
      read_audio(config, options, result);
      read_target(model, tokenizer, options, result);
      break;
    case ModelKind::image_text:
      read_text(model, tokenizer, options, result);
      result.text = std::exchange(result.source, {});
      result.source_special.clear();
      read_image(model, config, options, result);
      break;
    case ModelKind::regressor:
      fail(ErrorKind::usage, "inspect", "{} reads numbers, not text; use heed forward --attentions",
           model.model_type());
  }
  return result;
}

}  // namespace heed::app
