#include "models/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/check.h"

namespace heed {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, ModelSpec, std::less<>> specs;  // addresses stay

  Registry() {
    for (ModelSpec (*spec)() : {
#define HEED_MODEL(name) name##_spec,
#include "models/families.h"
#undef HEED_MODEL
         }) {
      ModelSpec made = spec();
      const std::string type = made.model_type;
      specs.emplace(type, std::move(made));
    }
  }
};

Registry& registry() {
  static Registry all;
  return all;
}

bool has_parameter(const Model& model, std::string_view part) {
  const auto& all = model.parameters();
  return std::any_of(all.begin(), all.end(), [&](const Parameter& parameter) {
    return parameter.name.find(part) != std::string::npos;
  });
}

}  // namespace

JsonBuilder usual_fresh_config(const FreshSizes& sizes) {
  return JsonBuilder()
      .set("vocab_size", sizes.vocab_size)
      .set("hidden_size", sizes.hidden_size)
      .set("num_hidden_layers", sizes.num_layers)
      .set("num_attention_heads", sizes.num_heads)
      .set("intermediate_size", sizes.intermediate_size)
      .set("max_position_embeddings", sizes.context_length)
      .set("dropout", sizes.dropout);
}

void register_model(ModelSpec spec) {
  check(!spec.model_type.empty() && spec.make != nullptr, "register_model",
        "a model_type and a function that makes the model are needed");
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const std::string type = spec.model_type;
  check(all.specs.emplace(type, std::move(spec)).second, "register_model",
        "model_type '{}' is registered already", type);
}

const ModelSpec* find_model_spec(std::string_view model_type) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.specs.find(model_type);
  return found == all.specs.end() ? nullptr : &found->second;
}

std::vector<const ModelSpec*> model_specs() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::vector<const ModelSpec*> specs;
  for (const auto& [type, spec] : all.specs) {
    specs.push_back(&spec);
  }
  return specs;
}

std::vector<std::string> known_model_types() {
  std::vector<std::string> types;
  for (const ModelSpec* spec : model_specs()) {
    types.push_back(spec->model_type);
  }
  return types;
}

std::unique_ptr<Model> make_model(const Json& config, const Scope& scope) {
  const std::string type = config.string("model_type");
  const ModelSpec* spec = find_model_spec(type);
  if (spec == nullptr) {
    fail(ErrorKind::data, config.file(), "model_type '{}' is not supported; heed knows {}", type,
         fmt::join(known_model_types(), ", "));
  }
  return spec->make(config, scope);
}

std::string hugging_face_architecture(const Model& model) {
  const ModelSpec* spec = find_model_spec(model.model_type());
  if (spec != nullptr) {
    for (const ModelHead& head : spec->heads) {
      if (has_parameter(model, head.parameter) && has_parameter(model, head.second_parameter)) {
        return head.architecture;
      }
    }
  }
  return {};
}

}  // namespace heed
