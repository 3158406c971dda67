#include "models/registry.h"

#include <fmt/format.h>

#include "base/check.h"

namespace heed {

const std::vector<ModelEntry>& model_entries() {
  static const std::vector<ModelEntry> entries = {
      // clang-format off
      {"bert", make_bert},
      {"distilbert", make_distilbert},
      {"gpt2", make_gpt2},
      {"heed-captioner", make_heed_captioner},
      {"heed-encoder", make_heed_encoder},
      {"heed-reader", make_heed_reader},
      {"heed-regressor", make_heed_regressor},
      {"heed-rnn-seq2seq", make_heed_rnn_seq2seq},
      {"heed-sentiment", make_heed_sentiment},
      {"heed-seq2seq", make_heed_seq2seq},
      {"llama", make_llama},
      {"marian", make_marian},
      {"mistral", make_llama},
      {"t5", make_t5},
      {"vision-encoder-decoder", make_vision_encoder_decoder},
      {"vit", make_vit},
      // clang-format on
  };
  return entries;
}

std::vector<std::string> known_model_types() {
  std::vector<std::string> types;
  for (const ModelEntry& entry : model_entries()) {
    types.emplace_back(entry.type);
  }
  return types;
}

std::unique_ptr<Model> make_model(const Json& config, const Scope& scope) {
  const std::string type = config.string("model_type");
  for (const ModelEntry& entry : model_entries()) {
    if (type == entry.type) {
      return entry.make(config, scope);
    }
  }
  fail(ErrorKind::data, config.file(), "model_type '{}' is not supported; heed knows {}", type,
       fmt::join(known_model_types(), ", "));
}

}  // namespace heed
