#pragma once

#include <string>

#include "models/common.h"

namespace heed {

/// The scores of recurrent translators: how a decoder's state asks and the encoder's states answer.
enum class RnnScore { bahdanau, concat, luong_dot, luong_general, luong_concat };
RnnScore rnn_score(const Json& config, std::string_view key);
/// Luong's attend with the new hidden state and combine afterwards; the others with the one before.
bool attends_after(RnnScore score);

/// One attention over an encoder's states, with the state's projections computed once per sentence.
class RnnAttention {
 public:
  RnnAttention() = default;
  RnnAttention(const Scope& scope, RnnScore score, int64_t hidden, int64_t size);

  /// What the scores need of the memory [B, T, hidden].
  Tensor prepare(const Tensor& memory) const;
  /// query [B, hidden] -> weights [B, T]; masked is u8 [B, T], 1 = padding, or undefined.
  Tensor weights(const Tensor& query, const Tensor& prepared, const Tensor& masked) const;
  /// Weighted sum of the memory [B, T, hidden] -> [B, hidden].
  static Tensor context(const Tensor& weights, const Tensor& memory);

 private:
  Tensor half(const Tensor& x, bool of_key) const;

  Linear query_, key_, score_vector_;
  Tensor concat_;  ///< [size, 2 hidden]
};

/// Shows weights [B, Tq, Tk] to the observer in scope, as an attention of one head over the memory.
void show_weights(const Tensor& weights, const Tensor& memory);

}  // namespace heed
