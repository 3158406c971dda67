#include <fmt/format.h>

#include <cmath>

#include "explore/trace.h"
#include "generate/numbers.h"
#include "heed/ops.h"
#include "pipelines/image_input.h"

// What the rows of models that do not read text stand for: patches, moments of a recording,
// numbers.

namespace heed::explore {
namespace {

ShownToken row_token(int64_t index, std::string label, bool special = false) {
  ShownToken token;
  token.label = std::move(label);
  token.special = special;
  token.group = index;
  return token;
}

constexpr int64_t kMostNumbers = 64;  // that a regressor goes on with by itself

std::string patch_label(int64_t row, int64_t column) { return fmt::format("{},{}", row, column); }

/// The rows of features [1, N, F] from `first` on: numbers that belong together share a token.
std::vector<ShownToken> number_tokens(const Tensor& features, int64_t first) {
  std::vector<ShownToken> tokens;
  for (int64_t i = first; i < features.size(1); ++i) {
    const std::vector<double> row = slice(features, 1, i, i + 1).to_doubles();
    ShownToken token = row_token(i, fmt::format("{:.5g}", fmt::join(row, ", ")));
    token.text = token.label;
    token.word = i;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

/// Numbers of a text as features [1, N, size]. `lead`: rows of zeros before them.
Tensor features_of(const std::string& text, int64_t size, int64_t lead, const char* param) {
  const std::vector<float> numbers = parse_numbers(text);
  const auto count = static_cast<int64_t>(numbers.size());
  if (count % size != 0 || (count == 0 && lead == 0)) {
    throw Failure(
        400, "invalid",
        fmt::format("the text has {} numbers; the model takes {} at each position", count, size),
        param);
  }
  Tensor features = Tensor::zeros({1, lead + count / size, size});
  std::copy(numbers.begin(), numbers.end(), features.data<float>() + lead * size);
  return features;
}

}  // namespace

void Trace::name_patches() {
  const std::string stack = !texts_.empty() ? "vision_model." : has_target() ? "encoder." : "";
  if (!has_hook(stack + "blocks.0.hook_resid_pre")) {
    return name_stages();
  }
  const VisionConfig vision = vision_config(model_.model->config());
  const int64_t columns = vision.image.width / vision.patch.width;
  const int64_t patches = vision.image.height / vision.patch.height * columns;
  const int64_t count = rows_of(stack + "blocks.0.hook_resid_pre");
  const int64_t first = count - patches;  // [CLS], and DeiT's token of distillation
  for (int64_t i = 0; i < count; ++i) {
    source_.push_back(row_token(i,
                                i >= first
                                    ? patch_label((i - first) / columns, (i - first) % columns)
                                : i == 0 ? "[CLS]"
                                         : fmt::format("[{}]", i),
                                i < first));
  }
}

void Trace::name_stages() {
  const VisionConfig vision = vision_config(model_.model->config());
  int64_t first = 0;
  for (const ShownAttention& each : attentions_) {
    const auto number = static_cast<int64_t>(stages_.size());
    const StageGrid grid = stage_grid(vision, number);
    Stage stage;
    stage.stack = fmt::format("stages.{}.", number);
    stage.first_layer = first;
    stage.grid = {grid.rows, grid.columns, grid.all_rows, grid.all_columns};
    const std::string input = fmt::format("{}blocks.{}.hook_resid_pre", stage.stack, first);
    if (each.kind != kind_of_stack(stage.stack) || !has_hook(input) ||
        rows_of(input) != stage.grid.count()) {
      stages_.clear();
      break;
    }
    if (each.queries != stage.grid.all()) {  // recorded window by window
      left_out_.push_back(each.kind);
    }
    const auto places = [number](int64_t pixels, int64_t patch) {  // pixels of a place double
      return static_cast<double>(pixels) /
             std::ldexp(static_cast<double>(patch), static_cast<int>(number));
    };
    stage.picture_rows = places(vision.image.height, vision.patch.height);
    stage.picture_columns = places(vision.image.width, vision.patch.width);
    for (int64_t i = 0; i < stage.grid.all(); ++i) {
      const bool real = stage.grid.row_at(i) >= 0;
      stage.tokens.push_back(row_token(
          i, real ? patch_label(i / grid.all_columns, i % grid.all_columns) : "pad", !real));
    }
    stages_.push_back(std::move(stage));
    first += each.layers;
  }
  if (stages_.empty()) {
    throw Failure(409, "unsupported", "this model is no stack of Transformer blocks", "model");
  }
  source_ = stages_.front().tokens;
  const auto is_left_out = [this](const std::string& kind) {
    return std::find(left_out_.begin(), left_out_.end(), kind) != left_out_.end();
  };
  std::erase_if(attentions_, [&](const ShownAttention& each) { return is_left_out(each.kind); });
  std::erase_if(recorded_,
                [&](const RecordedAttention& each) { return is_left_out(each.place.kind); });
}

void Trace::name_landmarks() {
  for (const ShownAttention& each : attentions_) {
    const auto count = static_cast<int64_t>(source_.size());
    if (each.kind != "self" || each.queries >= count || each.queries == 0) {
      continue;
    }
    const int64_t size = (count + each.queries - 1) / each.queries;
    for (int64_t i = 0; i < each.queries; ++i) {
      const int64_t begin = std::min(i * size, count - 1), last = std::min(begin + size, count) - 1;
      const auto label = [this](int64_t at) { return source_[static_cast<size_t>(at)].label; };
      landmarks_.push_back(row_token(
          i, last > begin ? fmt::format("{} … {}", label(begin), label(last)) : label(begin)));
    }
  }
}

void Trace::name_frames() {
  constexpr double kSecondsPerFrame = 0.02;
  const int64_t count = rows_of("encoder.blocks.0.hook_resid_pre");
  for (int64_t i = 0; i < count; ++i) {
    source_.push_back(
        row_token(i, fmt::format("{:.2f} s", static_cast<double>(i) * kSecondsPerFrame)));
  }
}

void Trace::read_numbers() {
  constexpr int64_t kMost = 1 << 20;
  const Json& config = model_.model->config();
  const int64_t inputs = config.integer_or("input_size", 1, 1, kMost);
  const int64_t outputs = config.integer_or("output_size", 1, 1, kMost);
  const int64_t targets = config.integer_or("decoder_input_size", outputs, 1, kMost);
  input_.features = features_of(request_.text.value_or(""), inputs, 0, "text");
  const int64_t length = input_.features.size(1), context = model_.model->context_length();
  if (context > 0 && length > context) {
    throw Failure(413, "too_large",
                  fmt::format("the text has {} numbers; the model takes {}", length, context),
                  "text");
  }
  source_ = number_tokens(input_.features, 0);
  // The decoder begins with zeros and goes on with its own answers, as `heed predict` lets it.
  input_.decoder_features = features_of(request_.target.value_or(""), targets, 1, "target");
  if (!request_.target && outputs == targets) {
    const int64_t count = std::min<int64_t>(length, kMostNumbers);
    const std::vector<double> found =
        predict_numbers(*model_.model, input_.features, count, outputs);
    input_.decoder_features = Tensor::zeros({1, count, targets});
    std::copy_n(found.begin(), (count - 1) * targets,
                input_.decoder_features.data<float>() + targets);
    generated_ = true;
  }
  target_ = {row_token(0, "0", true)};
  for (ShownToken& token : number_tokens(input_.decoder_features, 1)) {
    target_.push_back(std::move(token));
  }
}

std::string Trace::target_numbers() const {
  const Tensor behind = slice(input_.decoder_features, 1, 1, input_.decoder_features.size(1));
  return fmt::format("{:.9g}", fmt::join(behind.to_doubles(), " "));  // f32 comes back to the bit
}

}  // namespace heed::explore
