#pragma once

#include <string>
#include <vector>

#include "heed/attention.h"
#include "heed/tensor.h"

// Looking at attention weights: whether they are what they must be, what they attend to, and what
// attention costs.

namespace heed {

/// What checking weights [.., Tq, Tk] found.
struct WeightsReport {
  int64_t rows = 0;
  int64_t empty_rows = 0;      ///< rows of zeros: queries that may see no key
  double worst_sum_error = 0;  ///< largest |Σ row - 1| of the other rows
  double smallest = 0;
  double largest = 0;
  int64_t not_finite = 0;             ///< NaN and infinities
  double future = 0;                  ///< sum of the weights on later keys; 0 where not causal
  std::vector<std::string> problems;  ///< what is wrong, in words; empty: all is well
  bool ok() const { return problems.empty(); }
};
/// Rows sum to 1, all lies in 0 … 1, nothing is NaN or infinite; where `causal`, query i has no
/// weight on keys after i + offset.
HEED_API WeightsReport validate_weights(const Tensor& weights, bool causal = false,
                                        int64_t offset = 0);

/// How one head attends, each a mean over its rows, 0 … 1 but for the last two. Query i stands at
/// key i + offset.
struct AttentionPatterns {
  double diagonal = 0;       ///< weight on the own position
  double previous = 0;       ///< on the position before it
  double first = 0;          ///< on the first key
  double local = 0;          ///< within `reach` of the own position
  double uniform = 0;        ///< 1: spread evenly over the visible keys; 0: all on one
  double entropy = 0;        ///< in bits
  double mean_distance = 0;  ///< Σ weight · |query - key|
};
/// Of one head's weights [Tq, Tk].
HEED_API AttentionPatterns attention_patterns(const Tensor& weights, int64_t offset = 0,
                                              int64_t reach = 3);
/// The pattern that stands out: "diagonal", "previous token", "first token", "local", "uniform" or
/// "mixed".
HEED_API std::string name_of_pattern(const AttentionPatterns& patterns);

struct Attended {
  int64_t key = 0;
  double weight = 0;
};
/// The `count` keys with the largest weights of each row of [Tq, Tk], largest first; of equals the
/// first.
HEED_API std::vector<std::vector<Attended>> top_attended(const Tensor& weights, int64_t count);

/// Bytes of one head's matrix of weights: length² elements. 1,024 tokens in f32: 4.0 MB.
HEED_API double attention_matrix_bytes(int64_t length, DType type, int64_t heads = 1,
                                       int64_t batch = 1);

/// Multiplications and additions of one layer over a sequence, and the longest way of steps that
/// must come one after another, and between two positions.
struct LayerCost {
  double operations = 0;
  double sequential_steps = 0;
  double path_length = 0;
};
HEED_API LayerCost recurrent_cost(int64_t length, int64_t width);
HEED_API LayerCost convolution_cost(int64_t length, int64_t width, int64_t kernel);
HEED_API LayerCost self_attention_cost(int64_t length, int64_t width);

}  // namespace heed
