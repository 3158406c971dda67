#pragma once

#include "kernels/attention.h"

namespace heed::kernels {

/// One backward pass as its tiles see it.
template <class T>
struct BackwardPass {
  const AttentionProblem<T>& problem;
  HeadsView<const T> out;
  HeadsView<const T> dout;
  RowStats<const T> stats;
  AttentionGradients<T> gradients;  // dk and dv: those of the task, added to
};

/// Gradients of 64 queries of one head: writes their rows of dq, adds to dk, dv and dbias.
void attention_backward_tile(const BackwardPass<float>& pass, int64_t b, int64_t h, int64_t tile);
void attention_backward_tile(const BackwardPass<double>& pass, int64_t b, int64_t h, int64_t tile);

}  // namespace heed::kernels
