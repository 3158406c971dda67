#include "models/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/check.h"
#include "base/printable.h"
#include "models/common.h"

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

const ModelSpec& model_spec(const Model& model) {
  static const ModelSpec none;
  const ModelSpec* spec = find_model_spec(model.model_type());
  return spec == nullptr ? none : *spec;
}

bool points_at_tokens(const Model& model) {
  return model_spec(model).points_at_tokens &&
         model.config().string_or("readout", "attention") == "attention";
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

namespace {

/// Edits (one letter put in, left out or changed) that make one name of the other.
size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row.back();
}

/// 1 for equal names, 0 for names without anything in common. A known name `b` that begins with `a`
/// comes first ("gemma3" is near to "gemma3_text"), then one that `a` begins with ("qwen3_moe" is
/// near to "qwen3").
double likeness(std::string_view a, std::string_view b) {
  constexpr double kBeginning = 0.75;
  const auto longer = static_cast<double>(std::max(a.size(), b.size()));
  const double alike = 1.0 - static_cast<double>(edits_between(a, b)) / longer;
  if (b.starts_with(a)) {
    return 0.97 + 0.03 * alike;
  }
  return a.starts_with(b) ? kBeginning + 0.25 * alike : alike;
}

}  // namespace

std::string nearest_model_type(const Json& config) {
  constexpr double kNear = 0.6;
  constexpr size_t kLongest = 64;
  const std::string type = config.string_or("model_type", "").substr(0, kLongest);
  std::string nearest;
  double best = kNear;
  for (const std::string& known : known_model_types()) {
    const double alike = known.starts_with("heed-") || type.empty() ? 0.0 : likeness(type, known);
    if (alike > best) {
      best = alike;
      nearest = known;
    }
  }
  if (!nearest.empty()) {
    return nearest;
  }
  const std::string architecture = heed::architecture(config);
  const std::pair<std::string_view, const char*> kinds[] = {{"ForImageClassification", "vit"},
                                                            {"VisionModel", "vit"},
                                                            {"ForCausalLM", "llama"},
                                                            {"LMHeadModel", "gpt2"},
                                                            {"ForConditionalGeneration", "bart"},
                                                            {"MTModel", "marian"}};
  for (const auto& [part, known] : kinds) {
    if (architecture.find(part) != std::string::npos) {
      return known;
    }
  }
  return config.boolean_or("is_encoder_decoder", false) ? "bart" : "bert";
}

std::unique_ptr<Model> make_model(const Json& config, const Scope& scope) {
  const std::string type = config.string("model_type");
  const ModelSpec* spec = find_model_spec(type);
  if (spec == nullptr) {
    constexpr size_t kLongestName = 80;
    fail(ErrorKind::data, config.file(),
         "model_type '{}' is not supported; the nearest that is: {} (heed knows {})",
         printable(type, kLongestName), nearest_model_type(config),
         fmt::join(known_model_types(), ", "));
  }
  return spec->make(config, scope);
}

const ModelHead* head_of(const Model& model) {
  for (const ModelHead& head : model_spec(model).heads) {
    if (has_parameter(model, head.parameter) && has_parameter(model, head.second_parameter)) {
      return &head;
    }
  }
  return nullptr;
}

std::string hugging_face_architecture(const Model& model) {
  const ModelHead* head = head_of(model);
  return head == nullptr ? std::string() : head->architecture;
}

}  // namespace heed
