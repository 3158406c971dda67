#include "models/forward.h"

#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"

namespace heed {
namespace {

/// "encoder.blocks.2.attn" -> "encoder_attentions.2"; empty where the hook does not belong to a
/// block.
std::string attention_name(std::string_view place) {
  std::string stack;
  const std::pair<std::string_view, const char*> stacks[] = {
      {"encoder", "encoder_"},
      {"decoder", "decoder_"},
      {"text_model", "text_model_output."},
      {"vision_model", "vision_model_output."}};
  for (const auto& [name, prefix] : stacks) {
    if (place.starts_with(name) && place.substr(name.size()).starts_with('.')) {
      stack = prefix;
      place.remove_prefix(name.size() + 1);
    }
  }
  constexpr std::string_view kStages = "stages.";
  if (place.starts_with(kStages)) {  // Swin: the last layer of each stage, as in Hugging Face
    const std::string_view stage = place.substr(kStages.size());
    return fmt::format("attentions.{}", stage.substr(0, stage.find('.')));
  }
  constexpr std::string_view kBlocks = "blocks.";
  const size_t dot = place.rfind('.');
  if (!place.starts_with(kBlocks) || dot < kBlocks.size()) {
    return {};
  }
  const std::string_view index = place.substr(kBlocks.size(), dot - kBlocks.size());
  const std::string_view part = place.substr(dot + 1);
  if (part == "cross_attn") {
    return fmt::format("cross_attentions.{}", index);
  }
  return part == "attn" ? fmt::format("{}attentions.{}", stack, index) : std::string();
}

bool is_hidden_state(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot != std::string_view::npos && name.substr(0, dot).ends_with("hidden_states");
}

class Collector final : public Observer {
 public:
  Collector(const ForwardWanted& wanted, TensorMap& tensors) : wanted_(wanted), tensors_(tensors) {}

  bool wants(const std::string& name) override {
    return (wanted_.hidden_states && is_hidden_state(name)) ||
           (wanted_.attentions && name.ends_with(".hook_whole_map"));
  }
  Tensor activation(const std::string& name, const Tensor& value) override {
    tensors_.insert_or_assign(name, value.detach());
    return value;
  }
  void attention(const std::string& place, const AttentionRecord& record) override {
    const std::string name = wanted_.attentions ? attention_name(place) : std::string();
    if (!name.empty()) {
      tensors_.insert_or_assign(name, record.all_weights());
    }
  }

 private:
  ForwardWanted wanted_;
  TensorMap& tensors_;
};

void add_gradients(const Model& model, const Tensor& loss, TensorMap& tensors) {
  backward(loss);
  for (const Parameter& parameter : model.parameters()) {
    if (parameter.tensor.requires_grad()) {
      const Tensor gradient = parameter.tensor.grad();
      tensors.emplace("grad." + parameter.name,
                      gradient.defined() ? gradient : Tensor::zeros(parameter.tensor.shape()));
    }
  }
}

}  // namespace

ModelInput model_input(const TensorMap& tensors, const std::string& file) {
  ModelInput input;
  const std::map<std::string_view, Tensor*> places = {
      {"input_ids", &input.input_ids},
      {"attention_mask", &input.attention_mask},
      {"token_type_ids", &input.token_type_ids},
      {"decoder_input_ids", &input.decoder_input_ids},
      {"decoder_attention_mask", &input.decoder_attention_mask},
      {"pixel_values", &input.pixel_values},
      {"input_features", &input.input_features},
      {"features", &input.features},
      {"decoder_features", &input.decoder_features},
      {"global_attention_mask", &input.global_attention_mask},
      {"start_positions", &input.start_positions},
      {"end_positions", &input.end_positions},
      {"labels", &input.labels},
  };
  for (const auto& [name, tensor] : tensors) {
    if (name == "return_loss") {  // a flag, as Hugging Face's CLIP takes it
      input.want_loss = tensor.numel() > 0 && tensor.to_doubles().front() != 0.0;
      continue;
    }
    const auto place = places.find(name);
    if (place == places.end()) {
      std::vector<std::string_view> known;
      known.reserve(places.size());
      for (const auto& [each, unused] : places) {
        known.push_back(each);
      }
      fail(ErrorKind::data, file, "tensor {} is no input; inputs are {}", quote(name),
           fmt::join(known, ", "));
    }
    const bool ids = name.ends_with("_ids");
    check_data(!ids || tensor.dtype() == DType::i64 || tensor.dtype() == DType::i32, file,
               "tensor {} holds {}; i64 or i32 is wanted", quote(name), name_of(tensor.dtype()));
    *place->second = tensor;
  }
  return input;
}

TensorMap run_forward(const Model& model, const ModelInput& input, const ForwardWanted& wanted) {
  const bool without_labels = model.kind() == ModelKind::image_text;
  if (wanted.grads && !without_labels && !input.labels.defined() &&
      !input.start_positions.defined()) {
    fail(ErrorKind::usage, "forward",
         "gradients need labels (or start_positions and end_positions) among the inputs");
  }
  TensorMap tensors;
  ModelOutput output;
  {
    Collector collector(wanted, tensors);
    std::optional<NoGrad> no_grad;
    if (!wanted.grads) {
      no_grad.emplace();
    }
    ModelInput given = input;
    given.want_loss = given.want_loss || (wanted.grads && without_labels);
    output = model.forward(given);
  }
  const std::pair<const char*, const Tensor&> results[] = {
      {"loss", output.loss},
      {"logits", output.logits},
      {"last_hidden_state", output.last_hidden_state},
      {"pooler_output", output.pooler_output},
      {"encoder_last_hidden_state", output.encoder_last_hidden_state},
      {"start_logits", output.start_logits},
      {"end_logits", output.end_logits},
      {"logits_per_image", output.logits_per_image},
      {"logits_per_text", output.logits_per_text},
      {"image_embeds", output.image_embeds},
      {"text_embeds", output.text_embeds},
  };
  for (const auto& [name, tensor] : results) {
    if (tensor.defined()) {
      tensors.emplace(name, tensor.detach());
    }
  }
  if (wanted.grads) {
    check(output.loss.defined() && output.loss.requires_grad(), "forward",
          "this model computes no loss from these inputs");
    add_gradients(model, output.loss, tensors);
  }
  return tensors;
}

bool reads_token_types(const Model& model) {
  const auto& all = model.parameters();
  return std::any_of(all.begin(), all.end(), [](const Parameter& parameter) {
    return parameter.name.ends_with("token_type_embeddings.weight") && parameter.tensor.size(0) > 1;
  });
}

}  // namespace heed
