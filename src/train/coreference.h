#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heed/models.h"
#include "heed/teaching.h"
#include "heed/text.h"
#include "train/live_line.h"

namespace heed {

/// A small encoder that reads "it": its answer is the word with the most weight of one attention
/// from "it" over the sentence.
struct CoreferenceReader {
  std::unique_ptr<Model> model;
  Tokenizer tokenizer;  ///< one token a word

  /// Weights from the query over the words of one sentence.
  std::vector<double> weights(const CoreferenceExample& example) const;
};

struct CoreferenceOptions {
  Language language = Language::english;
  uint64_t seed = 0;
  int64_t steps = 300;
  int64_t batch = 64;
};
/// Trains on generated sentences; `progress` is called after every step.
CoreferenceReader train_coreference(const CoreferenceOptions& options,
                                    const std::function<void(const Progress&)>& progress);

struct CoreferenceScore {
  double accuracy = 0.0;  ///< the word with the most weight is the referent's word
  double pointing = 0.0;  ///< the largest weight lies on the referent itself
};
/// On `count` sentences with pairs of nouns that no training sentence has.
CoreferenceScore score_coreference(const CoreferenceReader& reader,
                                   const CoreferenceOptions& options, int64_t count);

}  // namespace heed
