#include "train/lora.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "models/adapter.h"

namespace heed {
namespace {

constexpr const char* kLora = "lora";

template <class T>
T number_of(std::string_view key, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0)) {
    fail(ErrorKind::usage, kLora, "{}={} must be a number above 0", key, text);
  }
  return value;
}

}  // namespace

LoraOptions parse_lora(const std::string& text) {
  LoraOptions options;
  bool has_alpha = false;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    const size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1);
    if (key == "rank") {
      options.rank = number_of<int64_t>(key, value);
    } else if (key == "alpha") {
      options.alpha = number_of<double>(key, value);
      has_alpha = true;
    } else if (key == "targets" && (value == "attention" || value == "all")) {
      options.targets = value;
    } else {
      fail(ErrorKind::usage, kLora, "'{}' is not one of rank=N, alpha=X, targets=attention|all",
           part);
    }
  }
  if (!has_alpha) {
    options.alpha = 2.0 * static_cast<double>(options.rank);
  }
  return options;
}

void check_lora(const TrainOptions& o) {
  if (o.lora.empty()) {
    return;
  }
  parse_lora(o.lora);
  if (o.from.empty()) {
    fail(ErrorKind::usage, kLora, "adapts a model: say from which one");
  }
  if (!o.freeze.empty()) {
    fail(ErrorKind::usage, kLora, "freezes all weights of the model: freeze nothing else");
  }
}

void save_trained(const Model& model, const std::filesystem::path& folder,
                  const TrainOptions& options) {
  if (model.adapted_layers().empty()) {
    save_model(model, folder);
    return;
  }
  const std::filesystem::path base = base_model_path(options.from);
  save_adapter(
      model, folder,
      std::filesystem::exists(base) ? std::filesystem::absolute(base).native() : base.native());
}

TensorMap load_trained(const Model& model, const std::filesystem::path& folder) {
  return model.adapted_layers().empty() ? load_weights(folder)
                                        : load_safetensors(folder / kAdapterWeights);
}

void set_trained(const Model& model, const TensorMap& tensors) {
  for (const Parameter& parameter : model.trainable_parameters()) {
    Tensor tensor = parameter.tensor;
    tensor.copy_from(tensors.at(parameter.name));
  }
}

}  // namespace heed
