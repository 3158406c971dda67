// Values of config.json, read and checked.
#include "base/check.h"
#include "models/common.h"

namespace heed {
namespace {
constexpr int64_t kMaxSize = int64_t{1} << 24;
constexpr int64_t kMaxLayers = 4096;
}  // namespace

int64_t size_of(const Json& config, std::string_view key) {
  return config.integer(key, 1, kMaxSize);
}

int64_t size_or(const Json& config, std::string_view key, int64_t otherwise) {
  return config.integer_or(key, otherwise, 1, kMaxSize);
}

int64_t layer_count(const Json& config, std::string_view key) {
  return config.integer(key, 1, kMaxLayers);
}

double positive_or(const Json& config, std::string_view key, double otherwise) {
  const double value = config.number_or(key, otherwise, 0.0, 1e12);
  check_data(value > 0.0, config.file(), "{} is {}; it must be above 0", key, value);
  return value;
}

double rate_or(const Json& config, std::string_view key, double otherwise) {
  const double value = config.number_or(key, otherwise, 0.0, 1.0);
  check_data(value < 1.0, config.file(), "{} is {}; it must be below 1", key, value);
  return value;
}

Activation activation_of(const Json& config, std::string_view key, std::string_view otherwise) {
  const std::string name = config.string_or(key, otherwise);
  if (name == "gelu" || name == "gelu_python") {
    return Activation::gelu;
  }
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast" ||
      name == "gelu_accurate" || name == "gelu_python_tanh") {
    return Activation::gelu_tanh;
  }
  if (name == "relu") {
    return Activation::relu;
  }
  if (name == "silu" || name == "swish") {
    return Activation::silu;
  }
  if (name == "tanh") {
    return Activation::tanh;
  }
  if (name == "quick_gelu") {
    return Activation::quick_gelu;
  }
  if (name == "sigmoid") {
    return Activation::sigmoid;
  }
  if (name == "linear") {
    return Activation::none;
  }
  fail(ErrorKind::data, config.file(),
       "{} '{}' is not supported; use gelu, gelu_new, quick_gelu, relu, silu, tanh, sigmoid or "
       "linear",
       key, name);
}

int64_t head_dim(const Json& config, std::string_view width_key, int64_t width,
                 std::string_view heads_key, int64_t heads) {
  check_data(width % heads == 0, config.file(), "{} {} is not divisible by {} {}", width_key, width,
             heads_key, heads);
  return width / heads;
}

std::optional<int64_t> padding_token(const Json& config, std::optional<int64_t> otherwise,
                                     int64_t vocabulary) {
  constexpr const char* kKey = "pad_token_id";
  if (!config.has(kKey)) {
    return config.mentions(kKey) ? std::nullopt : otherwise;
  }
  const int64_t token = config.integer(kKey, -vocabulary, vocabulary - 1);
  return token < 0 ? token + vocabulary : token;
}

std::string architecture(const Json& config) {
  const auto found = config.find("architectures");
  return found && found->is_array() && found->size() > 0 ? (*found)[0].string() : std::string();
}

}  // namespace heed
