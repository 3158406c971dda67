#include <cstdio>

#include "base/check.h"
#include "base/language.h"
#include "base/print_message.h"
#include "heed/io.h"
#include "heed/models.h"
#include "models/files.h"
#include "train/lora.h"
#include "train/memory_plan.h"
#include "train/task_config.h"

namespace heed {
namespace {

/// The tensor of that name, with or without the prefix of the base model ("bert.").
const Tensor* find_weight(const TensorMap& weights, const std::string& name) {
  auto found = weights.find(name);
  if (found == weights.end() && name.find('.') != std::string::npos) {
    found = weights.find(name.substr(name.find('.') + 1));
  }
  return found == weights.end() ? nullptr : &found->second;
}

/// The class of a model type that does a task of `heed train`; empty where it has none.
std::string head_for_task(const std::string& model_type, const std::string& task) {
  const std::string wanted = task == "classify"         ? "text-classification"
                             : task == "mlm"            ? "fill-mask"
                             : task == "image-classify" ? "image-classification"
                                                        : "";
  const ModelSpec* spec = find_model_spec(model_type);
  if (spec != nullptr && task == "embed") {  // the base model, which comes last
    return spec->heads.empty() ? std::string() : spec->heads.back().architecture;
  }
  if (spec != nullptr && !wanted.empty()) {
    // The last of several: a distilled DeiT's head comes before the one that has a loss.
    for (auto head = spec->heads.rbegin(); head != spec->heads.rend(); ++head) {
      if (head->task == wanted) {
        return head->architecture;
      }
    }
  }
  return {};
}

void say_fresh(const TrainOptions& o, const std::vector<std::string>& fresh) {
  if (!fresh.empty() && !o.quiet) {
    print_message(tell("{} has no {}: they begin fresh", o.from, fmt::join(fresh, ", ")));
  }
}

/// A low-rank adapter on the model in `from`, whose own weights stay as they are stored; with a
/// head of its own where `config` asks for one.
std::unique_ptr<Model> with_adapter(const TrainOptions& o, const ModelFiles& files,
                                    const Json& config, bool new_head) {
  LoraOptions lora = parse_lora(o.lora);
  lora.seed = o.seed;
  lora.new_head = new_head;
  const TensorMap weights = files.tensors();
  std::unique_ptr<Model> model = build_model(files, config, weights, {.lora = lora});
  std::vector<std::string> fresh;
  for (const Parameter& parameter : model->parameters()) {
    const Tensor* weight = find_weight(weights, parameter.name);
    if (parameter.tensor.requires_grad() &&
        (weight == nullptr || weight->shape() != parameter.tensor.shape())) {
      fresh.push_back(parameter.name);
    }
  }
  say_fresh(o, fresh);
  return model;
}

/// The body of the model in `from` under the head that `config` asks for.
std::unique_ptr<Model> with_new_head(const TrainOptions& o, const Json& config) {
  const ModelFiles files = find_model_files(o.from);
  Config own(files.config);
  for (const char* key : {"id2label", "label2id", "num_labels"}) {
    if (const auto value = config.find(key)) {
      own.set(key, *value);
    }
  }
  const std::string head = head_for_task(files.config.string_or("model_type", ""), o.task);
  if (!head.empty()) {
    own.set("architectures", std::vector<std::string>{head});
  }
  check_data(files.adapter.empty(), o.from,
             "is an adapter; merge it with `heed convert --merge` to train another head");
  if (!o.lora.empty()) {
    return with_adapter(o, files, own.build(), true);
  }
  std::unique_ptr<Model> model = create_model(own.build(), o.seed);
  const TensorMap weights = files.tensors();
  std::vector<std::string> fresh;
  for (const Parameter& parameter : model->parameters()) {
    const Tensor* weight = find_weight(weights, parameter.name);
    if (weight == nullptr || weight->shape() != parameter.tensor.shape()) {
      fresh.push_back(parameter.name);
      continue;
    }
    Tensor tensor = parameter.tensor;
    tensor.copy_from(weight->to(tensor.dtype()));
  }
  check_data(fresh.size() < model->parameters().size(), o.from,
             "has none of the {} weights that task {} needs", fresh.size(), o.task);
  say_fresh(o, fresh);
  return model;
}

/// The model in `from`, to be trained whole or with an adapter.
std::unique_ptr<Model> from_model(const TrainOptions& o) {
  if (o.lora.empty()) {
    return load_model(o.from, {.trainable = true});
  }
  const ModelFiles files = find_model_files(o.from);
  check_data(files.adapter.empty(), o.from,
             "is an adapter already: train it further without another one");
  return with_adapter(o, files, files.config, false);
}

}  // namespace

std::unique_ptr<Model> start_model(const TrainOptions& o, const Config& config, bool new_head) {
  const Json wanted = config.build();
  if (o.from.empty()) {
    check_model_fits(o, wanted.integer_or("vocab_size", 0, 0, INT64_MAX));
  }
  std::unique_ptr<Model> model = o.from.empty() ? create_model(wanted, o.seed)
                                 : new_head     ? with_new_head(o, wanted)
                                                : from_model(o);
  model->set_gradient_checkpointing(o.recompute);
  return model;
}

}  // namespace heed
