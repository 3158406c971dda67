#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "heed/data.h"
#include "heed/io.h"
#include "heed/models.h"
#include "heed/text.h"
#include "heed/train.h"

// The config.json of a model to be trained, by model_type.

namespace heed {

using Config = JsonBuilder;

/// The model_type to train: the one asked for or started from, which must know the task, else
/// `usual`.
std::string chosen_arch(const TrainOptions& o, const std::string& usual);
/// config.json of a model of that type with the sizes of the options; `padding` is the tokenizer's
/// pad_token_id.
Config fresh_config(const TrainOptions& o, const std::string& type, int64_t vocab_size,
                    int64_t image_size = 0, int64_t channels = 3, int64_t padding = 0);
/// The kind of tokenizer that models of a type usually have: "bpe:8192", "wordpiece:8192".
std::string usual_tokenizer(const std::string& type);

/// Ids that batches need, from the tokenizer.
SequenceTokens sequence_tokens(const Tokenizer& tokenizer);
/// The same, with what the model's config.json says about it first.
SequenceTokens sequence_tokens(const Tokenizer& tokenizer, const Model& model);
/// The first id that is there.
TokenId first_of(std::initializer_list<std::optional<TokenId>> ids, TokenId otherwise);

void add_token_ids(Config& config, const SequenceTokens& tokens);
void add_labels(Config& config, const std::vector<std::string>& labels);

/// A fresh model; or the one of `from`. What `config` says about the head (architectures, labels)
/// holds there too where `new_head`: a part that the folder lacks, or has in another shape, begins
/// fresh, and is named on stderr.
std::unique_ptr<Model> start_model(const TrainOptions& o, const Config& config,
                                   bool new_head = false);

}  // namespace heed
