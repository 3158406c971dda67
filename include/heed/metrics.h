#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heed/export.h"

// Evaluation metrics.

namespace heed {

/// BLEU of a whole set by sacreBLEU's definition: 13a tokens, n-grams up to 4, exponential
/// smoothing, one reference per sentence, case kept.
struct Bleu {
  double score = 0.0;         ///< 0 … 100
  double precisions[4] = {};  ///< of n-grams, in percent
  double brevity = 0.0;       ///< penalty for results shorter than the references
  int64_t result_tokens = 0;
  int64_t reference_tokens = 0;
};
HEED_API Bleu corpus_bleu(const std::vector<std::string>& results,
                          const std::vector<std::string>& references);
/// The tokens that BLEU counts: mteval's international tokenisation 13a.
HEED_API std::vector<std::string> tokenize_13a(std::string_view line);

/// chrF2 by sacreBLEU's definition: n-grams of up to 6 characters without white space. 0 … 100.
HEED_API double corpus_chrf(const std::vector<std::string>& results,
                            const std::vector<std::string>& references);

/// Fraction of the results that equal the reference, ignoring leading and trailing white space.
HEED_API double exact_match(const std::vector<std::string>& results,
                            const std::vector<std::string>& references);

/// Words that were put in, left out or changed, as a fraction of the references' words. Words are
/// compared in lower case and without punctuation at their ends.
HEED_API double word_error_rate(const std::vector<std::string>& results,
                                const std::vector<std::string>& references);

/// Scores of one class.
struct ClassScore {
  double precision = 0.0;  ///< 0 where the class was never predicted
  double recall = 0.0;     ///< 0 where the class does not occur
  double f1 = 0.0;
  int64_t support = 0;    ///< how often the class is the true one
  int64_t predicted = 0;  ///< how often it was predicted
};

struct ClassScores {
  double accuracy = 0.0;
  double macro_f1 = 0.0;   ///< mean over the classes that occur among the true or predicted ones
  double binary_f1 = 0.0;  ///< of class 1, where there are two classes
  std::vector<ClassScore> classes;
  /// confusion[truth][predicted]: how often. Empty for more than 1000 classes.
  std::vector<std::vector<int64_t>> confusion;
};
HEED_API ClassScores class_scores(const std::vector<int64_t>& truth,
                                  const std::vector<int64_t>& predicted, int64_t classes);

}  // namespace heed
