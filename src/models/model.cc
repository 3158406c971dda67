#include "base/check.h"
#include "base/file.h"
#include "heed/models.h"
#include "heed/precision.h"
#include "models/common.h"
#include "models/files.h"
#include "models/registry.h"
#include "models/ties.h"
#include "tensor/impl.h"

namespace heed {

Model::~Model() = default;

namespace {
[[noreturn]] void cannot(const Model& model, const char* what) {
  fail(ErrorKind::usage, model.model_type(), "this model cannot {}", what);
}
}  // namespace

EncoderOutput Model::encode(const ModelInput&) const {
  cannot(*this, "encode an input for a decoder");
}
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
    model->unused_ = scope.unused();
    return model;
  }
};

namespace {

/// Names the tensors that are not read, where their values are lost.
void warn_of_unused(const Model& model, const std::string& file) {
  std::string text;
  for (const UnusedTensor& each : model.unused_tensors()) {
    if (!each.recomputed) {
      text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", each.name, each.reason);
    }
  }
  if (!text.empty()) {
    fmt::print(stderr, "heed: warning: {}: not used: {}\n", file, text);
  }
}

std::unique_ptr<Model> build(std::string_view config_text, const std::string& config_name,
                             TensorMap tensors, const std::string& file,
                             const LoadOptions& options) {
  const Json config = resolve_tied_weights(Json::parse(config_text, config_name), tensors);
  if (options.trainable) {
    double bytes = 0.0;
    for (const auto& [name, tensor] : tensors) {
      bytes += 4.0 * static_cast<double>(tensor.numel());
    }
    check_data(bytes <= memory_limit(), file, "is {:.3g} GB in f32; {:.3g} GB of memory are there",
               bytes * 1e-9, memory_limit() * 1e-9);
  }
  const Scope scope = Scope::loaded(std::move(tensors), file, options.trainable);
  return ModelAccess::finish(make_model(config, scope), config, scope);
}

void copy_into_memory(const TensorMap& tensors) {
  double bytes = 0.0;
  for (const auto& [name, tensor] : tensors) {
    bytes += static_cast<double>(tensor.bytes());
  }
  if (bytes > memory_limit() / 2) {
    return;
  }
  std::vector<std::shared_ptr<const void>> files;
  for (const auto& [name, tensor] : tensors) {
    Storage& storage = *tensor.impl()->storage;  // views keep their strides
    const std::span mapped(static_cast<const std::byte*>(storage.data()),
                           static_cast<size_t>(storage.bytes()));
    files.push_back(storage.take_over());
    if (files.back() != nullptr) {
      drop_pages(mapped);
    }
  }
  check_files_intact();
}

/// Where models run in bf16: matrices of f32 rounded once, instead of at every product.
void round_matrices(TensorMap& tensors) {
  for (auto& [name, tensor] : tensors) {
    if (tensor.rank() == 2 && tensor.dtype() == DType::f32) {
      tensor = tensor.to(DType::bf16);
    }
  }
}

}  // namespace

std::unique_ptr<Model> build_model(std::string_view config_text, TensorMap tensors,
                                   const std::string& file, const LoadOptions& options) {
  return build(config_text, "config.json", std::move(tensors), file, options);
}

std::unique_ptr<Model> create_model(std::string_view config_text, uint64_t seed) {
  const Json config = Json::parse(config_text, "config.json");
  const Scope scope = Scope::fresh(seed);
  return ModelAccess::finish(make_model(config, scope), config, scope);
}

std::unique_ptr<Model> load_model(const std::filesystem::path& path, const LoadOptions& options) {
  const ModelFiles files = find_model_files(path);
  TensorMap tensors = files.tensors();
  if (activation_type() == DType::bf16 && !options.trainable) {
    round_matrices(tensors);
  }
  if (options.in_memory && !options.trainable) {
    copy_into_memory(tensors);
  }
  auto model =
      build(files.config, files.config_name, std::move(tensors), files.weights_name, options);
  warn_of_unused(*model, files.weights_name);
  return model;
}

}  // namespace heed
