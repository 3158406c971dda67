#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heed/models.h"
#include "heed/synthetic.h"
#include "heed/text.h"
#include "heed/trainer.h"

// The quickstart's model: a small encoder that learns what "it" stands for. Part of heed::lessons.

namespace heed {

/// How the encoder's answer is read.
enum class Readout {
  attention,   ///< one attention from "it" over the sentence; its weights are the answer
  classifier,  ///< a plain classifier over the row of "it", which need not look where it answers
};

struct CoreferenceOptions {
  Language language = Language::english;
  uint64_t seed = 0;
  int64_t steps = 300;
  int64_t batch = 64;
  Readout readout = Readout::attention;
};

struct HEED_API CoreferenceReader {
  CoreferenceOptions options;
  std::unique_ptr<Model> model;
  Tokenizer tokenizer;  ///< one token per word

  /// Weights of the readout from the query over the words of one sentence.
  std::vector<double> weights(const CoreferenceExample& example) const;
  /// The noun that the model takes "it" for.
  std::string answer(const CoreferenceExample& example) const;
};
/// Trains on generated sentences; `progress` is called after every step.
HEED_API CoreferenceReader
train_coreference(const CoreferenceOptions& options,
                  const std::function<void(const TrainProgress&)>& progress = nullptr);

struct CoreferenceScore {
  double accuracy = 0.0;  ///< the answer is the referent's word
  double pointing = 0.0;  ///< the readout's largest weight lies on the referent; 0 without one
};
/// On `count` sentences with pairs of nouns that no training sentence has. A Recorder in scope acts
/// on the model: that is how heads are ablated.
HEED_API CoreferenceScore score_coreference(const CoreferenceReader& reader, int64_t count);

}  // namespace heed
