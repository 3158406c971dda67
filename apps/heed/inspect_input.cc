#include <algorithm>
#include <filesystem>
#include <span>

#include "base/check.h"
#include "base/utf8.h"
#include "heed/generate.h"
#include "heed/image.h"
#include "heed/inspect_run.h"
#include "io/json.h"
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
  if (pair && model.model_type() == "bert") {
    result.input.token_type_ids = as_row(encoding.type_ids);
  }
  result.source = token_labels(encoding, *options.text);
  result.source_special = special_positions(encoding.ids, tokenizer);
  if (model.model_type() == "heed-reader") {
    mark_query(options, result);
  }
}

void read_image(const Json& config, const InspectOptions& options, InspectInput& result) {
  if (options.image.empty()) {
    fail(ErrorKind::usage, "inspect", "this model needs --image FILE");
  }
  const VisionConfig vision = vision_config(config);
  const auto [size, patch, channels] = vision;
  result.input.pixel_values = model_pixels(vision, options.model, options.image);
  const Tensor shown = resize_image(load_image(options.image, 3), size.height, size.width);
  result.image =
      shown.alias({size.height, size.width, 3}, {size.width, 1, size.height * size.width}, 0)
          .contiguous();
  result.patch_rows = size.height / patch.height;
  result.patch_columns = size.width / patch.width;
  result.first_patch = 1;
  result.source.push_back("[CLS]");
  for (int64_t r = 0; r < result.patch_rows; ++r) {
    for (int64_t c = 0; c < result.patch_columns; ++c) {
      result.source.push_back(fmt::format("{},{}", r, c));
    }
  }
}

/// The start token and what the model itself would write, the most likely token at each step.
std::vector<TokenId> most_likely(const Model& model, const ModelInput& input, int64_t start) {
  std::vector<TokenId> ids{start};
  Request request;
  request.encoder = input;
  request.max_tokens = kMostGenerated;
  apply_generation_tokens(model, request);
  request.on_token = [&ids, &request,
                      context = model.context_length()](const SampledToken& choice) {
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
  std::vector<TokenId> ids;
  if (options.target.empty()) {
    ids = most_likely(model, result.input, start);
  } else {
    ids.push_back(start);
    tokenizer.append_ids(options.target, ids);
  }
  result.input.decoder_input_ids = as_row(ids);
  result.target = token_labels(ids, tokenizer);
  result.target_special = special_positions(ids, tokenizer);
}

}  // namespace

InspectInput inspect_input(const Model& model, const Tokenizer& tokenizer,
                           const InspectOptions& options) {
  const Json config = Json::parse(model.config(), "config.json");
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
      read_image(config, options, result);
      break;
    case ModelKind::vision_decoder:
      read_image(config, options, result);
      read_target(model, tokenizer, options, result);
      break;
    case ModelKind::speech_decoder:
      fail(ErrorKind::usage, "inspect",
           "{} reads speech; use heed transcribe, or heed forward --attentions",
           model.model_type());
    case ModelKind::regressor:
      fail(ErrorKind::usage, "inspect", "{} reads numbers, not text; use heed forward --attentions",
           model.model_type());
  }
  return result;
}

}  // namespace heed::app
