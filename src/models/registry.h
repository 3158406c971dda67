#pragma once

#include <memory>
#include <string>
#include <vector>

#include "heed/models.h"
#include "io/json.h"

namespace heed {

/// Builds a model from config.json; parameters come from the scope. Does not call scope.finish().
using ModelMaker = std::unique_ptr<Model> (*)(const Json& config, const Scope& scope);

struct ModelEntry {
  const char* type;  ///< config.json's model_type
  ModelMaker make;
};
/// One line a model.
const std::vector<ModelEntry>& model_entries();

/// Makes a model whose type the configuration names, at any place in the scope: the parts of a
/// vision-encoder-decoder are made like this too.
std::unique_ptr<Model> make_model(const Json& config, const Scope& scope);

std::unique_ptr<Model> make_bert(const Json& config, const Scope& scope);
std::unique_ptr<Model> make_distilbert(const Json& config, const Scope& scope);
std::unique_ptr<Model> make_gpt2(const Json& config, const Scope& scope);
std::unique_ptr<Model> make_heed_captioner(const Json& config, const Scope& scope);
std::unique_ptr<Model> make_heed_encoder(const Json& config, const Scope& scope);
std::unique_ptr<Model> make_heed_reader(const Json& config, const Scope& scope);
std::unique_ptr<Model> make_heed_regressor(const Json& config, const Scope& scope);
std::unique_ptr<Model> make_heed_rnn_seq2seq(const Json& config, const Scope& scope);
std::unique_ptr<Model> make_heed_sentiment(const Json& config, const Scope& scope);
std::unique_ptr<Model> make_heed_seq2seq(const Json& config, const Scope& scope);
std::unique_ptr<Model> make_llama(const Json& config, const Scope& scope);
std::unique_ptr<Model> make_marian(const Json& config, const Scope& scope);
std::unique_ptr<Model> make_t5(const Json& config, const Scope& scope);
std::unique_ptr<Model> make_vision_encoder_decoder(const Json& config, const Scope& scope);
std::unique_ptr<Model> make_vit(const Json& config, const Scope& scope);

}  // namespace heed
