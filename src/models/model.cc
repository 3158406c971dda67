#include "base/check.h"
#include "base/file.h"
#include "base/language.h"
#include "base/print_message.h"
#include "heed/models.h"
#include "heed/ops.h"
#include "models/adapter.h"
#include "models/common.h"
#include "models/files.h"
#include "models/registry.h"
#include "models/ties.h"
#include "ops/quantized.h"
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
void Model::set_kv_type(DType type) {
  const DType before = std::exchange(kv_type_, type);
  try {
    if (type != DType::f32) {
      new_cache(1);
    }
  } catch (...) {
    kv_type_ = before;
    throw;
  }
}
void Model::set_kv_window(const KvWindow& window) {
  if (window.on()) {
    fail(ErrorKind::usage, model_type(),
         "the cache cannot slide: positions are learned, given by an encoder or scaled by the "
         "length of the text");
  }
}
Tensor Model::decode(const Tensor&, Pass&) const { cannot(*this, "generate"); }
Tensor Model::do_logits(const Tensor&) const { cannot(*this, "give logits of tokens"); }

ModelKind Model::kind() const { return model_spec(*this).kind; }

ModelOutput causal_lm_output(const Tensor& logits, const Tensor& labels) {
  ModelOutput output;
  output.logits = logits;
  if (labels.defined()) {
    output.loss = cross_entropy(logits.slice(1, 0, -1), labels.slice(1, 1));
  }
  return output;
}

ModelOutput Model::forward(const ModelInput& input) const {
  ModelOutput output = do_forward(input);
  check_files_intact();
  return output;
}

Tensor Model::logits(const Tensor& rows) const {
  Tensor result = do_logits(rows);
  check_files_intact();
  return result;
}

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const Parameter& parameter : parameters_) {
    count += parameter.tensor.numel();
  }
  return count;
}

std::vector<Parameter> Model::trainable_parameters() const {
  if (adapted_.empty()) {
    return parameters_;
  }
  std::vector<Parameter> all;
  for (const AdaptedLayer& layer : adapted_) {
    all.push_back({kAdapterPrefix + layer.name + ".lora_A.weight", layer.update.a});
    all.push_back({kAdapterPrefix + layer.name + ".lora_B.weight", layer.update.b});
  }
  for (const Parameter& parameter : parameters_) {
    if (parameter.tensor.requires_grad()) {
      all.push_back({kAdapterPrefix + parameter.name, parameter.tensor});
    }
  }
  return all;
}

struct ModelAccess {
  static std::unique_ptr<Model> finish(std::unique_ptr<Model> model, const Json& config,
                                       const Scope& scope) {
    scope.finish();
    model->model_type_ = config.string("model_type");
    model->config_ = config;
    const ModelKind kind = model->kind();
    if (kind == ModelKind::decoder || kind == ModelKind::encoder ||
        kind == ModelKind::encoder_decoder) {
      constexpr int64_t kMost = int64_t{1} << 40;
      model->vocab_size_ = config.integer_or("vocab_size", 0, 0, kMost);
    }
    model->parameters_ = scope.parameters();
    model->unused_ = scope.unused();
    model->adapted_ = scope.adapted_layers();
    return model;
  }
};

namespace {

/// Names the tensors that are not read, where their values are lost.
void warn_of_unused(const Model& model, const std::string& file) {
  std::string text;
  for (const UnusedTensor& each : model.unused_tensors()) {
    if (!each.recomputed) {
      text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", each.name,
                          translate_message(each.reason));
    }
  }
  if (!text.empty()) {
    print_message(tell("heed: warning: {}: not used: {}", file, text));
  }
}

bool fit_easily(const TensorMap& tensors) {
  double bytes = 0.0;
  for (const auto& [name, tensor] : tensors) {
    bytes += static_cast<double>(tensor.bytes());
  }
  return bytes <= memory_limit() / 2;
}

void copy_into_memory(const TensorMap& tensors) {
  std::vector<std::shared_ptr<const void>> files;
  for (const auto& [name, tensor] : tensors) {
    if (can_interleave(tensor)) {
      continue;  // products read a copy in another order
    }
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

/// Whether a model reads its whole input at once: its products have many rows and gain by panels of
/// weights, which generation, bound by reading weights, does not.
bool reads_at_once(ModelKind kind) {
  return kind == ModelKind::encoder || kind == ModelKind::vision || kind == ModelKind::image_text;
}

bool reads_at_once(const Json& config) {
  const ModelSpec* spec = find_model_spec(config.string_or("model_type", ""));
  return spec != nullptr && reads_at_once(spec->kind);
}

/// Matrices of 16 bits as f32, of which panels can be made.
void widen_matrices(TensorMap& tensors) {
  for (auto& [name, tensor] : tensors) {
    if (tensor.rank() == 2 && (tensor.dtype() == DType::f16 || tensor.dtype() == DType::bf16)) {
      tensor = tensor.to(DType::f32);
    }
  }
}

}  // namespace

std::unique_ptr<Model> build_model(const ModelFiles& files, const Json& given, TensorMap tensors,
                                   const LoadOptions& options) {
  const std::string& file = files.weights_name;
  const Json config = resolve_tied_weights(given, tensors);
  const std::shared_ptr<Adapter> adapter = make_adapter(options);
  const bool trainable = options.trainable && adapter == nullptr;
  if (trainable) {
    double bytes = 0.0;
    for (const auto& [name, tensor] : tensors) {
      bytes += 4.0 * static_cast<double>(tensor.numel());
    }
    check_data(bytes <= memory_limit(), file, "is {:.3g} GB in f32; {:.3g} GB of memory are there",
               bytes * 1e-9, memory_limit() * 1e-9);
  }
  const Scope scope = Scope::loaded(std::move(tensors), file, trainable);
  scope.call_tensors(files.stored_name);
  scope.adapt(adapter);
  const bool own_head = options.lora ? options.lora->new_head
                                     : std::filesystem::exists(options.adapter / "config.json");
  if (adapter != nullptr && own_head) {  // the file's head gives way, without a warning
    scope.ignore({"*"}, "another head's", true);
  }
  auto model = ModelAccess::finish(make_model(config, scope), config, scope);
  if (adapter != nullptr) {
    adapter->finish(*model, file);
  }
  return model;
}

std::unique_ptr<Model> build_model(const Json& config, TensorMap tensors, const std::string& file,
                                   const LoadOptions& options) {
  return build_model({.config = config, .weights_name = file}, config, std::move(tensors), options);
}

std::unique_ptr<Model> build_model(std::string_view config_text, TensorMap tensors,
                                   const std::string& file, const LoadOptions& options) {
  return build_model(Json::parse(config_text, "config.json"), std::move(tensors), file, options);
}

std::unique_ptr<Model> create_model(std::string_view config_text, uint64_t seed) {
  return create_model(Json::parse(config_text, "config.json"), seed);
}

std::unique_ptr<Model> create_model(const Json& config, uint64_t seed) {
  const Scope scope = Scope::fresh(seed);
  return ModelAccess::finish(make_model(config, scope), config, scope);
}

std::unique_ptr<Model> load_model(const std::filesystem::path& path, const LoadOptions& given) {
  const ModelFiles files = find_model_files(path, given.adapter);
  LoadOptions options = given;
  options.adapter = files.adapter;
  TensorMap tensors = files.tensors();
  if (activation_type() == DType::bf16 && !options.trainable) {
    round_matrices(tensors);
  } else if (options.in_memory && !options.trainable && reads_at_once(files.config) &&
             fit_easily(tensors)) {
    widen_matrices(tensors);
  }
  const bool copies = !options.trainable && fit_easily(tensors);
  if (copies && options.in_memory) {
    copy_into_memory(tensors);
  }
  auto model = build_model(files, files.config, std::move(tensors), options);
  for (const Parameter& parameter : model->parameters()) {
    const bool packs = reads_at_once(model->kind()) && can_pack(parameter.tensor);
    if (copies && (packs || can_interleave(parameter.tensor))) {
      interleave_when_used(parameter.tensor);
    }
  }
  model->set_kv_type(options.kv_type);
  model->set_kv_window(options.kv_window);
  warn_of_unused(*model, files.weights_name);
  return model;
}

}  // namespace heed
