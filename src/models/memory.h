#pragma once

#include <map>
#include <string>
#include <vector>

#include "heed/models.h"

namespace heed {

/// Attention over one sequence, in bytes, f32.
struct AttentionMemory {
  int64_t length = 0;
  int64_t matrix = 0;  ///< the weights of one layer's heads written out
  int64_t flash = 0;   ///< what heed's kernel keeps instead: output and log-sum-exp
  int64_t cache = 0;   ///< keys and values of all layers; 0 for a model that does not generate
};

/// What a model needs, in bytes: weights exactly, the rest by the sizes of its layers.
struct MemoryEstimate {
  int64_t weights = 0;
  std::map<std::string, int64_t> weights_by_type;
  int64_t length = 0;  ///< positions of the sequence that `run` and `train` are for
  int64_t run = 0;     ///< weights, cache and the widest step
  int64_t train = 0;   ///< f32 weights, gradients, two moments, and every layer's activations
  std::vector<AttentionMemory> attention;
};

MemoryEstimate estimate_memory(const Model& model);

}  // namespace heed
