#include "models/architectures.h"

#include <algorithm>
#include <array>

namespace heed {
namespace {

/// The first rule whose part a parameter's name contains; an empty part fits any model.
struct Rule {
  std::string_view type;
  std::string_view part;
  std::string_view architecture;
};
constexpr Rule kRules[] = {
    {"gpt2", "transformer.", "GPT2LMHeadModel"},
    {"gpt2", "", "GPT2Model"},
    {"llama", "model.", "LlamaForCausalLM"},
    {"llama", "", "LlamaModel"},
    {"mistral", "model.", "MistralForCausalLM"},
    {"mistral", "", "MistralModel"},
    {"bert", "cls.predictions.", "BertForMaskedLM"},
    {"bert", "classifier.", "BertForSequenceClassification"},
    {"bert", "", "BertModel"},
    {"distilbert", "vocab_", "DistilBertForMaskedLM"},
    {"distilbert", "pre_classifier.", "DistilBertForSequenceClassification"},
    {"distilbert", "", "DistilBertModel"},
    {"vit", "classifier.", "ViTForImageClassification"},
    {"vit", "", "ViTModel"},
    {"t5", "", "T5ForConditionalGeneration"},
    {"marian", "", "MarianMTModel"},
    {"vision-encoder-decoder", "", "VisionEncoderDecoderModel"},
};

bool fits(const Model& model, std::string_view part) {
  const auto& all = model.parameters();
  return std::any_of(all.begin(), all.end(), [&](const Parameter& parameter) {
    return parameter.name.find(part) != std::string::npos;
  });
}

}  // namespace

std::string hugging_face_architecture(const Model& model) {
  for (const Rule& rule : kRules) {
    if (model.model_type() == rule.type && fits(model, rule.part)) {
      const bool tags =
          rule.architecture == "BertForSequenceClassification" && !fits(model, "pooler.");
      return std::string(tags ? "BertForTokenClassification" : rule.architecture);
    }
  }
  return {};
}

}  // namespace heed
