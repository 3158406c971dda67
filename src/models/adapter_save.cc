#include <set>

#include "base/check.h"
#include "base/file.h"
#include "heed/io.h"
#include "heed/models.h"
#include "io/json_writer.h"
#include "models/adapter.h"
#include "models/registry.h"

// Low-rank adapters as PEFT writes them, and merged into their model.

namespace heed {
namespace {

namespace fs = std::filesystem;

/// PEFT's name of what a Hugging Face class does; empty: none.
std::string task_type(const Model& model) {
  const ModelSpec* spec = find_model_spec(model.model_type());
  const Json& config = model.config();
  std::string architecture = hugging_face_architecture(model);
  if (const auto named = config.find("architectures"); named && named->size() > 0) {
    architecture = (*named)[0].string();
  }
  std::string task;
  for (const ModelHead& head : spec == nullptr ? std::vector<ModelHead>() : spec->heads) {
    if (head.architecture == architecture) {
      task = head.task;
    }
  }
  return task == "text-generation"                                 ? "CAUSAL_LM"
         : task == "text-classification"                           ? "SEQ_CLS"
         : task == "token-classification"                          ? "TOKEN_CLS"
         : task == "question-answering"                            ? "QUESTION_ANS"
         : task == "translation" || task == "text2text-generation" ? "SEQ_2_SEQ_LM"
                                                                   : "";
}

/// A layer's name from its block on, by which PEFT finds it in every block.
std::string module_of(const std::string& name) {
  size_t begin = 0;
  for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
    const size_t next = std::min(name.find('.', dot + 1), name.size());
    const std::string part = name.substr(dot + 1, next - dot - 1);
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string::npos &&
        next < name.size()) {
      begin = next + 1;
    }
  }
  return name.substr(begin);
}

void write_strings(JsonWriter& json, const char* key, const std::set<std::string>& values) {
  json.key(key).begin_array();
  for (const std::string& value : values) {
    json.value(value);
  }
  json.end_array();
}

/// Layers whose rank or alpha is not the first one's, by their whole names.
template <class Value>
void write_pattern(JsonWriter& json, const char* key, const Model& model, const Value& value) {
  json.key(key).begin_object();
  for (const AdaptedLayer& layer : model.adapted_layers()) {
    if (value(layer) != value(model.adapted_layers().front())) {
      json.field("^" + layer.name, value(layer));
    }
  }
  json.end_object();
}

std::string adapter_config(const Model& model, const std::string& base,
                           const std::set<std::string>& whole) {
  const auto rank = [](const AdaptedLayer& layer) { return layer.update.a.size(0); };
  const auto alpha = [&](const AdaptedLayer& layer) {
    return layer.update.scale * static_cast<double>(rank(layer));
  };
  const AdaptedLayer& first = model.adapted_layers().front();
  std::set<std::string> targets;
  for (const AdaptedLayer& layer : model.adapted_layers()) {
    targets.insert(module_of(layer.name));
  }
  JsonWriter json(2);
  json.begin_object().field("peft_type", "LORA").field("base_model_name_or_path", base);
  const std::string task = task_type(model);
  if (!task.empty()) {
    json.field("task_type", task);
  }
  json.field("inference_mode", true).field("bias", "none").field("lora_dropout", 0.0);
  json.field("r", rank(first)).field("lora_alpha", alpha(first));
  write_pattern(json, "rank_pattern", model, rank);
  write_pattern(json, "alpha_pattern", model, alpha);
  json.field("fan_in_fan_out", first.layout == WeightLayout::in_out);
  write_strings(json, "target_modules", targets);
  if (!whole.empty()) {
    write_strings(json, "modules_to_save", whole);
  }
  return json.end_object().take() + "\n";
}

/// scale · B · A in the layout of the layer's matrix.
Tensor update_of(const AdaptedLayer& layer) {
  const Tensor product = mul(matmul(layer.update.b, layer.update.a), layer.update.scale);
  return layer.layout == WeightLayout::out_in ? product : transpose(product).contiguous();
}

}  // namespace

void save_adapter(const Model& model, const fs::path& folder, const std::string& base) {
  check(!model.adapted_layers().empty(), "save_adapter", "the model has no adapter");
  make_folder(folder);
  TensorMap tensors;
  std::set<std::string> whole;
  for (const Parameter& parameter : model.trainable_parameters()) {
    tensors.emplace(parameter.name, parameter.tensor.detach());
  }
  for (const Parameter& parameter : model.parameters()) {
    if (parameter.tensor.requires_grad()) {
      whole.insert(parameter.name.substr(0, parameter.name.rfind('.')));
    }
  }
  save_safetensors(folder / kAdapterWeights, tensors, {{"format", "pt"}});
  if (!whole.empty()) {
    write_file_atomically(folder / "config.json", model.config().dump(2) + "\n");
  }
  write_file_atomically(folder / kAdapterConfig, adapter_config(model, base, whole));
}

std::unique_ptr<Model> merge_adapter(const Model& model) {
  const NoGrad no_grad;
  TensorMap tensors;
  for (const Parameter& parameter : model.parameters()) {
    tensors.emplace(parameter.name, parameter.tensor.detach());
  }
  for (const AdaptedLayer& layer : model.adapted_layers()) {
    Tensor& weight = tensors.at(layer.name + ".weight");
    const DType type = is_quantized(weight.dtype()) ? DType::f32 : weight.dtype();
    weight = add(dequantize(weight).contiguous(), update_of(layer)).to(type);
  }
  return build_model(model.config(), std::move(tensors), "merged model");
}

}  // namespace heed
