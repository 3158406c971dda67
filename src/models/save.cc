#include <optional>

#include "base/check.h"
#include "base/file.h"
#include "heed/models.h"
#include "models/files.h"
#include "models/registry.h"

namespace heed {
namespace {

const char* torch_name(DType type) {
  return type == DType::f16 ? "float16" : type == DType::bf16 ? "bfloat16" : "float32";
}

/// The model's configuration with what transformers looks for when it opens a folder.
std::string config_for(const Model& model, DType type) {
  const Json& own = model.config();
  JsonBuilder config(own);
  config.erase(kGenerationKey);
  const std::string architecture = hugging_face_architecture(model);
  const auto named = own.find("architectures");
  if (!architecture.empty() && (!named || !named->is_array())) {
    config.set("architectures", std::vector<std::string>{architecture});
  }
  config.set(own.mentions("dtype") ? "dtype" : "torch_dtype", torch_name(type));
  return config.dump();
}

/// generation_config.json as it was read, or the token ids that generate() starts and stops with;
/// nothing for a model that does not generate.
std::optional<std::string> generation_config(const Model& model) {
  const Json& config = model.config();
  if (const auto read = config.find(kGenerationKey)) {
    return read->dump(2);
  }
  const ModelKind kind = model.kind();
  const bool generates = kind == ModelKind::decoder || kind == ModelKind::encoder_decoder ||
                         kind == ModelKind::vision_decoder || kind == ModelKind::speech_decoder;
  if (!generates) {
    return std::nullopt;
  }
  JsonBuilder result;
  for (const char* key : {"bos_token_id", "decoder_start_token_id", "eos_token_id",
                          "forced_bos_token_id", "forced_eos_token_id", "pad_token_id"}) {
    if (const auto id = config.find(key)) {
      result.set(key, *id);
    }
  }
  return result.set("_from_model_config", true).dump();
}

}  // namespace

void save_model(const Model& model, const std::filesystem::path& folder, DType type,
                const std::function<void(int64_t, int64_t)>& progress) {
  check(is_floating(type) && type != DType::f64, "save_model",
        "a folder holds f32, f16 or bf16, not {}; write a .gguf file for quantised weights",
        name_of(type));
  make_folder(folder);
  TensorMap tensors;
  const int64_t total = model.parameter_count();
  int64_t done = 0;
  for (const Parameter& parameter : model.parameters()) {
    const Tensor tensor = parameter.tensor.detach();
    tensors.emplace(parameter.name, tensor.dtype() == type ? tensor : dequantize(tensor).to(type));
    done += tensor.numel();
    if (progress) {
      progress(done, total);
    }
  }
  const std::string config = config_for(model, type);
  const std::optional<std::string> generation = generation_config(model);
  save_safetensors(folder / "model.safetensors", tensors);
  if (generation) {
    write_file_atomically(folder / kGenerationFile, *generation + "\n");
  }
  write_file_atomically(folder / "config.json", config + "\n");
}

}  // namespace heed
