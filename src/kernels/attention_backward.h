#pragma once

#include "kernels/attention.h"

namespace heed::kernels {

/// One backward pass as its tiles see it.
template <class T>
struct BackwardPass {
  const AttentionProblem<T>& problem;
  HeadsView<const T> out;
  HeadsView<const T> dout;
  RowStats<const Compute<T>> stats;
  HeadsView<T> dq;
  HeadsView<Compute<T>> dk;  // this and dv: those of the task, added to
  HeadsView<Compute<T>> dv;
  ScoreView<Compute<T>> dbias;
};

/// Gradients of the tiles [first, last) of 64 queries of one head: writes their rows of dq, adds to
/// dk, dv and dbias.
void attention_backward_tiles(const BackwardPass<float>& pass, int64_t b, int64_t h, int64_t first,
                              int64_t last);
void attention_backward_tiles(const BackwardPass<double>& pass, int64_t b, int64_t h, int64_t first,
                              int64_t last);

/// Only where uses_bf16_instructions().
void attention_backward_tiles(const BackwardPass<BFloat16>& pass, int64_t b, int64_t h,
                              int64_t first, int64_t last);

}  // namespace heed::kernels
