#include "models/adapter.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

#include "base/check.h"
#include "base/utf8.h"
#include "heed/io.h"
#include "heed/runtime.h"
#include "io/hub_cache.h"

// Low-rank adapters while a model is built: fresh ones, and those of a folder in PEFT's format.

namespace heed {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLora = "lora";
constexpr int64_t kMostRank = 1 << 16;

/// FNV-1a, so that a fresh matrix depends on its layer's name and not on the order of layers.
uint64_t stream_of(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  }
  return hash;
}

/// The part of a layer's name inside its block: "self_attn.q_proj" of
/// "model.layers.3.self_attn.q_proj"; empty where it is in no block.
std::string inside_block(const std::string& name) {
  for (size_t end = name.size(); end > 0;) {
    const size_t dot = name.rfind('.', end - 1);
    const size_t begin = dot == std::string::npos ? 0 : dot + 1;
    const std::string part = name.substr(begin, end - begin);
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string::npos) {
      return end < name.size() ? name.substr(end + 1) : std::string();
    }
    if (dot == std::string::npos) {
      break;
    }
    end = dot;
  }
  return {};
}

bool is_attention(std::string part) {
  std::transform(part.begin(), part.end(), part.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return part.find("attn") != std::string::npos || part.find("attention") != std::string::npos;
}

/// Fresh updates as PEFT begins them: A uniform in ±1/sqrt(in), B zero.
class FreshAdapter final : public Adapter {
 public:
  explicit FreshAdapter(const LoraOptions& options) : options_(options) {
    if (options.targets != "attention" && options.targets != "all") {
      fail(ErrorKind::usage, kLora, "targets '{}' is not one of attention, all", options.targets);
    }
    if (options.rank < 1 || options.rank > kMostRank || !(options.alpha > 0.0)) {
      fail(ErrorKind::usage, kLora, "rank {} and alpha {} must be above 0", options.rank,
           options.alpha);
    }
  }

  LowRank low_rank(const std::string& name, int64_t in, int64_t out) override {
    const std::string part = inside_block(name);
    if (part.empty() || (options_.targets == "attention" && !is_attention(part))) {
      return {};
    }
    LowRank update;
    update.scale = options_.alpha / static_cast<double>(options_.rank);
    update.a = Tensor::empty({options_.rank, in});
    update.b = Tensor::zeros({out, options_.rank});
    Random random(options_.seed, stream_of(name));
    const double bound = 1.0 / std::sqrt(static_cast<double>(in));
    float* values = update.a.data<float>();
    for (int64_t i = 0; i < update.a.numel(); ++i) {
      values[i] = static_cast<float>(bound * (2.0 * random.uniform() - 1.0));
    }
    update.a.set_requires_grad(true);
    update.b.set_requires_grad(true);
    return update;
  }

  Tensor parameter(const std::string& name, const Shape&, bool stored,
                   const std::function<Tensor()>& initial) override {
    // A classifier's head is trained like PEFT trains it, be it new or not.
    const bool classifier = name.starts_with("classifier.") || name.starts_with("score.");
    if (!options_.new_head || (stored && !classifier)) {
      return {};
    }
    Tensor tensor = initial();
    tensor.set_requires_grad(true);
    return tensor;
  }

  void finish(const Model& model, const std::string&) const override {
    check(!model.adapted_layers().empty(), kLora, "a {} has no matrices for targets '{}'",
          model.model_type(), options_.targets);
  }

 private:
  LoraOptions options_;
};

/// A name without what PEFT versions put around it: its prefix and the adapter's name.
std::string plain_name(std::string name) {
  if (name.starts_with(kAdapterPrefix)) {
    name = name.substr(std::string_view(kAdapterPrefix).size());
  }
  for (const char* part :
       {".modules_to_save.default", ".default", ".modules_to_save", ".original_module"}) {
    if (const size_t at = name.rfind(std::string(part) + "."); at != std::string::npos) {
      name.erase(at, std::string_view(part).size());
    }
  }
  return name;
}

/// The adapter of a folder in PEFT's format.
class StoredAdapter final : public Adapter {
 public:
  StoredAdapter(const fs::path& folder, bool trainable)
      : file_((folder / kAdapterWeights).native()),
        config_(Json::read(folder / kAdapterConfig)),
        trainable_(trainable) {
    const std::string type = config_.string_or("peft_type", "LORA");
    check_data(type == "LORA", config_.file(), "holds an adapter of type {}; LORA is supported",
               type);
    for (const char* flag :
         {"use_dora", "use_qalora", "use_bdlora", "lora_bias", "layer_replication", "kasa_config",
          "alora_invocation_tokens", "target_parameters", "trainable_token_indices"}) {
      const auto found = config_.find(flag);
      check_data(!found || (found->is_boolean() && !found->boolean()), config_.file(),
                 "{} is not supported; heed runs plain LoRA adapters", flag);
    }
    const std::string bias = config_.string_or("bias", "none");
    check_data(bias == "none", config_.file(), "bias \"{}\" is not supported; \"none\" is", bias);
    for (auto& [name, tensor] : load_safetensors(folder / kAdapterWeights)) {
      tensors_.emplace(plain_name(name), std::pair(name, tensor));
    }
  }

  LowRank low_rank(const std::string& name, int64_t in, int64_t out) override {
    const Tensor a = take(name + ".lora_A.weight");
    if (!a.defined()) {
      return {};
    }
    const Tensor b = take(name + ".lora_B.weight");
    check_data(b.defined(), file_, "'{}.lora_A.weight' has no lora_B beside it", name);
    check_data(
        a.rank() == 2 && b.rank() == 2 && a.size(1) == in && b.size(0) == out &&
            a.size(0) == b.size(1),
        file_,
        "is an adapter of another model{}: '{}' has A {} and B {} there; this model's matrix "
        "maps {} to {}",
        base(), name, a.shape().to_string(), b.shape().to_string(), in, out);
    return {owned(a), owned(b), alpha_of(name) / divisor(a.size(0))};
  }

  Tensor parameter(const std::string& name, const Shape& shape, bool,
                   const std::function<Tensor()>&) override {
    const Tensor tensor = take(name);
    if (!tensor.defined()) {
      return {};
    }
    check_data(tensor.shape() == shape, file_,
               "is an adapter of another model{}: '{}' is {} there, {} in this model", base(), name,
               tensor.shape().to_string(), shape.to_string());
    return owned(tensor);
  }

  void finish(const Model& model, const std::string& weights) const override {
    for (const auto& [name, stored] : tensors_) {
      check_data(used_.contains(name), file_,
                 "is an adapter of another model{}: {} (a {}) has no layer for '{}'", base(),
                 weights, model.model_type(), stored.first);
    }
    check_data(!model.adapted_layers().empty(), file_, "holds no low-rank updates");
  }

 private:
  Tensor take(const std::string& name) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      return {};
    }
    used_.insert(name);
    return found->second.second;
  }

  Tensor owned(const Tensor& stored) const {
    Tensor tensor = stored.dtype() == DType::f32 ? stored.clone() : stored.to(DType::f32);
    tensor.set_requires_grad(trainable_);
    return tensor;
  }

  /// lora_alpha, or what alpha_pattern says for a layer.
  double alpha_of(const std::string& name) const {
    double alpha = config_.number_or("lora_alpha", 8.0, -1e9, 1e9);
    if (const auto pattern = config_.find("alpha_pattern"); pattern && pattern->is_object()) {
      pattern->for_each([&](const std::string& key, const Json& value) {
        const bool whole = key.starts_with('^');
        const std::string ending = whole ? key.substr(1) : key;
        check_data(ending.find_first_of("^$*+?()[]{}|\\") == std::string::npos, config_.file(),
                   "alpha_pattern '{}' is a regular expression; only names are supported", key);
        if (name == ending || (!whole && name.ends_with("." + ending))) {
          alpha = value.number(-1e9, 1e9);
        }
      });
    }
    return alpha;
  }

  double divisor(int64_t rank) const {
    const auto value = static_cast<double>(rank);
    return config_.boolean_or("use_rslora", false) ? std::sqrt(value) : value;
  }

  std::string base() const {
    const std::string name = config_.string_or("base_model_name_or_path", "");
    return name.empty() ? "" : fmt::format(" ({})", name);
  }

  std::string file_;
  Json config_;
  bool trainable_;
  std::map<std::string, std::pair<std::string, Tensor>> tensors_;  // by plain name
  std::set<std::string> used_;
};

}  // namespace

std::shared_ptr<Adapter> make_adapter(const LoadOptions& options) {
  if (!options.adapter.empty()) {
    return std::make_shared<StoredAdapter>(options.adapter, options.trainable);
  }
  return options.lora ? std::make_shared<FreshAdapter>(*options.lora) : nullptr;
}

bool is_adapter(const fs::path& folder) { return fs::exists(folder / kAdapterConfig); }

fs::path adapter_folder(const fs::path& path) {
  return !is_adapter(path) && is_adapter(path / "model") ? path / "model" : path;
}

fs::path base_model_path(const fs::path& path) {
  const fs::path folder = adapter_folder(path);
  if (!fs::is_directory(path) || !is_adapter(folder)) {
    return path;
  }
  const Json config = Json::read(folder / kAdapterConfig);
  const std::string base = config.string_or("base_model_name_or_path", "");
  check_data(!base.empty(), config.file(),
             "does not name its model (base_model_name_or_path); open the model with this adapter");
  const fs::path beside = folder / base;
  fs::path found = [&] {
    try {
      return !fs::exists(base) && fs::exists(beside) ? beside : find_in_hub_cache(base);
    } catch (const std::exception&) {  // also a name that no file can have
      fail(ErrorKind::data, config.file(),
           "this adapter belongs to the model {}, which is not here; give its folder as the model "
           "and "
           "this one as the adapter",
           quote(base));
    }
  }();
  check_data(!is_adapter(adapter_folder(found)), config.file(), "its model {} is an adapter, too",
             found.native());
  return found;
}

}  // namespace heed
