#include "models/gemma.h"

#include <cmath>

#include "models/registry.h"

namespace heed {

DecoderConfig gemma_config(const Json& given) {
  const Json config = with_default(given, "head_dim", 256);
  check_bidirectional(config);
  DecoderConfig decoder = llama_like_config(config);
  decoder.norm.unit_offset = true;
  decoder.embedding_scale = std::sqrt(static_cast<double>(decoder.hidden_size));
  decoder.tied = config.boolean_or("tie_word_embeddings", true);
  // hidden_activation says it; the older hidden_act is read where that is missing.
  decoder.activation = config.has("hidden_activation")
                           ? activation_of(config, "hidden_activation", "gelu_pytorch_tanh")
                           : activation_of(config, "hidden_act", "gelu_pytorch_tanh");
  if (!config.mentions("pad_token_id")) {
    decoder.padding = 0;
  }
  return decoder;
}

GgufSpec gemma_gguf(const std::string& architecture) {
  GgufSpec gguf = llama_like_gguf(architecture, false);
  for (std::vector<GgufTensor>* list : {&gguf.tensors, &gguf.layer_tensors}) {
    for (GgufTensor& tensor : *list) {
      if (tensor.gguf.ends_with("norm")) {
        tensor.layout = GgufLayout::plus_one;
      }
    }
  }
  return gguf;
}

ModelSpec gemma_like_spec(const std::string& type, const std::string& family) {
  ModelSpec spec = llama_like_spec(type, family, "", false);
  spec.ties.tied_by_default = true;
  return spec;
}

ModelSpec gemma_spec() {
  ModelSpec spec = gemma_like_spec("gemma", "Gemma");
  spec.gguf = gemma_gguf("gemma");
  spec.gguf.read_config = [base = spec.gguf.read_config](const GgufMetadata& file,
                                                         JsonBuilder& config) {
    base(file, config);
    config.set("hidden_act", "gelu_pytorch_tanh");
  };
  spec.make = [](const Json& config, const Scope& scope) {
    return make_decoder(config, scope, gemma_config(config));
  };
  return spec;
}

}  // namespace heed
