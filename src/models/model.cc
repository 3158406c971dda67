#include "base/check.h"
#include "base/file.h"
#include "heed/models.h"
#include "models/files.h"
#include "models/registry.h"

namespace heed {

Model::~Model() = default;

namespace {
[[noreturn]] void cannot(const Model& model, const char* what) {
  fail(ErrorKind::usage, model.model_type(), "this model cannot {}", what);
}
}  // namespace

Memory Model::encode(const ModelInput&) const { cannot(*this, "encode an input for a decoder"); }
SequenceCache Model::new_cache(int64_t) const { cannot(*this, "generate"); }
Tensor Model::decode(const Tensor&, Pass&) const { cannot(*this, "generate"); }
Tensor Model::logits(const Tensor&) const { cannot(*this, "give logits of tokens"); }

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const Parameter& parameter : parameters_) {
    count += parameter.tensor.numel();
  }
  return count;
}

struct ModelAccess {
  static std::unique_ptr<Model> finish(std::unique_ptr<Model> model, const Json& config,
                                       const Scope& scope) {
    scope.finish();
    model->model_type_ = config.string("model_type");
    model->config_ = config.dump(2);
    model->parameters_ = scope.parameters();
    return model;
  }
};

std::unique_ptr<Model> build_model(std::string_view config_text, TensorMap tensors,
                                   const std::string& file, const LoadOptions& options) {
  const Json config = Json::parse(config_text, "config.json");
  const Scope scope = Scope::loaded(std::move(tensors), file, options.trainable);
  return ModelAccess::finish(make_model(config, scope), config, scope);
}

std::unique_ptr<Model> create_model(std::string_view config_text, uint64_t seed) {
  const Json config = Json::parse(config_text, "config.json");
  const Scope scope = Scope::fresh(seed);
  return ModelAccess::finish(make_model(config, scope), config, scope);
}

std::unique_ptr<Model> load_model(const std::filesystem::path& path, const LoadOptions& options) {
  const ModelFiles files = find_model_files(path);
  return build_model(files.config, files.tensors(), files.weights_name, options);
}

void save_model(const Model& model, const std::filesystem::path& folder, DType type) {
  check(is_floating(type) && type != DType::f64, "save_model",
        "a folder holds f32, f16 or bf16, not {}; write a .gguf file for quantised weights",
        name_of(type));
  make_folder(folder);
  TensorMap tensors;
  for (const Parameter& parameter : model.parameters()) {
    tensors.emplace(parameter.name, dequantize(parameter.tensor.detach()).to(type));
  }
  save_safetensors(folder / "model.safetensors", tensors);
  write_file_atomically(folder / "config.json", model.config() + "\n");
}

}  // namespace heed
