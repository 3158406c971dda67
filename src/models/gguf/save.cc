#include <cmath>

#include "base/check.h"
#include "models/common.h"
#include "models/gguf/model.h"
#include "models/gguf/names.h"
#include "models/rope.h"

namespace heed::gguf {
namespace {

/// general.file_type's numbers.
uint32_t file_type(DType type) {
  switch (type) {
    case DType::f32:
      return 0;
    case DType::f16:
      return 1;
    case DType::q4_0:
      return 2;
    case DType::q8_0:
      return 7;
    case DType::bf16:
      return 32;
    default:
      fail(ErrorKind::usage, "gguf", "cannot hold weights in {}; use f32, f16, bf16, q8_0 or q4_0",
           name_of(type));
  }
}

/// GGUF's name of a model_type: it keeps a Mistral as a Llama.
std::string architecture_of(const Model& model) {
  return model.model_type() == "mistral" ? "llama" : model.model_type();
}

class MetadataWriter {
 public:
  MetadataWriter(GgufWriter& writer, const Model& model)
      : writer_(writer),
        model_(model),
        architecture_(architecture_of(model)),
        config_(Json::parse(model.config(), "config.json")) {}

  void count(std::string_view name, int64_t value) {
    writer_.u32(key(name), static_cast<uint32_t>(value));
  }
  void from(std::string_view name, std::string_view config_key) {
    count(name, size_of(config_, config_key));
  }
  void number(std::string_view name, double value) {
    writer_.f32(key(name), static_cast<float>(value));
  }

  void gpt2() {
    count("context_length", model_.context_length());
    count("feed_forward_length", size_or(config_, "n_inner", 4 * model_.hidden_size()));
    number("attention.layer_norm_epsilon", positive_or(config_, "layer_norm_epsilon", 1e-5));
  }
  void bert() {
    count("context_length", model_.context_length());
    from("feed_forward_length", "intermediate_size");
    number("attention.layer_norm_epsilon", positive_or(config_, "layer_norm_eps", 1e-12));
    writer_.boolean(key("attention.causal"), false);
    count("pooling_type", 1);
    writer_.u32(kTokenTypes, static_cast<uint32_t>(size_or(config_, "type_vocab_size", 2)));
  }
  void llama() {
    const int64_t width = head_dim_of_llama();
    count("context_length", model_.context_length());
    from("feed_forward_length", "intermediate_size");
    count("vocab_size", model_.vocab_size());
    count("attention.head_count_kv", size_or(config_, "num_key_value_heads", model_.num_heads()));
    count("attention.key_length", width);
    count("attention.value_length", width);
    count("rope.dimension_count", width);
    number("attention.layer_norm_rms_epsilon", positive_or(config_, "rms_norm_eps", 1e-6));
    number("rope.freq_base", rotary_theta(config_));
    if (const int64_t window = sliding_window(config_); window > 0) {
      count("attention.sliding_window", window);
    }
    add_rope_factors(width);
  }

  void common() {
    count("embedding_length", model_.hidden_size());
    count("block_count", model_.num_layers());
    count("attention.head_count", model_.num_heads());
  }

 private:
  std::string key(std::string_view name) const { return fmt::format("{}.{}", architecture_, name); }
  int64_t head_dim_of_llama() const {
    return size_or(config_, "head_dim", model_.hidden_size() / model_.num_heads());
  }

  /// What scaled frequencies are divided by, as GGUF keeps Llama 3's scaling.
  void add_rope_factors(int64_t width) {
    const std::vector<double> scaled = rotary_frequencies(config_, width);
    const double theta = rotary_theta(config_);
    std::vector<float> factors;
    bool plain = true;
    for (size_t i = 0; i < scaled.size(); ++i) {
      const double frequency =
          std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
      factors.push_back(static_cast<float>(frequency / scaled[i]));
      plain = plain && std::abs(frequency / scaled[i] - 1.0) < 1e-9;
    }
    if (!plain) {
      writer_.tensor("rope_freqs.weight",
                     Tensor::from(factors, {static_cast<int64_t>(factors.size())}));
    }
  }

  GgufWriter& writer_;
  const Model& model_;
  std::string architecture_;
  Json config_;
};

Tensor turned(const Tensor& tensor, Turn turn, int64_t heads, int64_t key_heads) {
  switch (turn) {
    case Turn::transposed:
      return transpose(tensor);
    case Turn::query_pairs:
      return rows_in_pairs(tensor, heads);
    case Turn::key_pairs:
      return rows_in_pairs(tensor, key_heads);
    case Turn::none:
      break;
  }
  return tensor;
}

/// Tables that are small and read by everybody else as f32.
bool stays_f32(const std::string& name, const Tensor& tensor) {
  return tensor.rank() < 2 || name == "position_embd.weight" || name == "token_types.weight";
}

Tensor stored(const Tensor& tensor, DType type) {
  if (tensor.dtype() == type) {
    return tensor.contiguous();
  }
  const Tensor values = dequantize(tensor).contiguous();
  if (!is_quantized(type)) {
    return values.to(type);
  }
  constexpr int64_t kBlock = 32;
  return values.size(-1) % kBlock == 0 ? quantize(values, type) : values.to(DType::f16);
}

}  // namespace

void add_model(GgufWriter& writer, const Model& model, DType type) {
  const std::string architecture = architecture_of(model);
  if (!is_known(architecture)) {
    fail(ErrorKind::usage, "gguf", "has no place for a {} model; it holds {}", architecture,
         fmt::join(architectures(), ", "));
  }
  const Json config = Json::parse(model.config(), "config.json");
  check(!config.boolean_or("add_cross_attention", false) && !config.boolean_or("mlp_bias", false),
        "gguf", "has no place for cross-attention or for biases of Llama's feed-forward part");
  writer.string("general.architecture", architecture);
  writer.string("general.name", config.string_or("_name_or_path", architecture));
  writer.u32("general.file_type", file_type(type));
  writer.u32("general.quantization_version", 2);
  writer.string("heed.config", model.config());
  MetadataWriter metadata(writer, model);
  metadata.common();
  if (architecture == "gpt2") {
    metadata.gpt2();
  } else if (architecture == "llama") {
    metadata.llama();
  } else {
    metadata.bert();
  }
  const int64_t key_heads =
      config.integer_or("num_key_value_heads", model.num_heads(), 1, model.num_heads());
  for (const Parameter& parameter : model.parameters()) {
    const auto name = gguf_name(architecture, parameter.name);
    check(name.has_value(), "gguf", "has no name for parameter '{}'", parameter.name);
    const Tensor tensor =
        turned(parameter.tensor.detach(), name->turn, model.num_heads(), key_heads);
    writer.tensor(name->text, stored(tensor, stays_f32(name->text, tensor) ? DType::f32 : type));
  }
}

}  // namespace heed::gguf
