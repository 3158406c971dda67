#pragma once

#include <cstdint>
#include <filesystem>

#include "heed/pipelines.h"

namespace heed {

/// What sentence-transformers wrote beside a model.
struct SentenceModules {
  Pooling pooling = Pooling::mean;
  bool normalize = true;
  int64_t max_length = 0;
};
/// modules.json, 1_Pooling/config.json and sentence_bert_config.json of a model's folder, where
/// they are there. Refuses modules and ways of pooling that heed does not have.
SentenceModules read_sentence_modules(const std::filesystem::path& folder);

/// One vector from rows [count, hidden] of a text's tokens. Sums run in double, in order.
void pool_rows(const float* rows, int64_t count, int64_t hidden, Pooling pooling, bool normalize,
               float* out);

}  // namespace heed
