#pragma once

#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "heed/data.h"
#include "heed/models.h"
#include "heed/text.h"
#include "heed/train.h"

// The config.json of a model to be trained, by model_type.

namespace heed {

using Config = nlohmann::ordered_json;

/// --arch where the task knows it, the first of `known` where none was given.
std::string chosen_arch(const TrainOptions& o, std::initializer_list<const char*> known);

/// Ids that batches need, from the tokenizer.
SequenceTokens sequence_tokens(const Tokenizer& tokenizer);
/// The same, with what the model's config.json says about it first.
SequenceTokens sequence_tokens(const Tokenizer& tokenizer, const Model& model);
/// The first id that is there.
int32_t first_of(std::initializer_list<std::optional<int32_t>> ids, int32_t otherwise);

Config lm_config(const TrainOptions& o, const std::string& type, int64_t vocabulary);
Config bert_config(const TrainOptions& o, int64_t vocabulary, const char* architecture);
/// Marian, the tutorials' models, T5 and the LSTM with attention.
Config stack_config(const TrainOptions& o, const std::string& type, int64_t vocabulary);
Config vit_config(const TrainOptions& o, int64_t side, int64_t channels);
/// ViT and GPT-2 with cross-attention.
Config captioner_config(const TrainOptions& o, int64_t side, int64_t channels, int64_t vocabulary);

void add_token_ids(Config& config, const SequenceTokens& tokens);
void add_labels(Config& config, const std::vector<std::string>& labels);

/// A fresh model; or the one of --from. What `config` says about the head (architectures, labels)
/// holds there too where `new_head`: a part that the folder lacks, or has in another shape, begins
/// fresh, and is named on stderr.
std::unique_ptr<Model> start_model(const TrainOptions& o, const Config& config,
                                   bool new_head = false);

}  // namespace heed
