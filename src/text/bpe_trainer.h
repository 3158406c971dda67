#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "text/word_count.h"

namespace heed::text {

/// Learns merges from counted words: the pair that is there most often becomes a token, again and
/// again; of equals the one with the lower ids goes first, as in Hugging Face's trainer.
struct BpeTraining {
  int64_t vocab_size = 0;
  int64_t min_frequency = 2;
  std::string prefix;  ///< before every character but a word's first
  /// The vocabulary to begin with: special tokens, then the alphabet. Characters of a word that are
  /// not in it are left out.
  std::vector<std::string> tokens;
  size_t alphabet_begin = 0;  ///< where the alphabet begins in `tokens`
};

struct BpeTrained {
  std::vector<std::string> tokens;
  std::vector<std::pair<int32_t, int32_t>> merges;
};

BpeTrained train_bpe(const std::vector<WordCount>& words, const BpeTraining& options);

}  // namespace heed::text
