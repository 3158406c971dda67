#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace heed::kernels {

struct CrossEntropy {
  int64_t ignore_index = -100;
  double label_smoothing = 0.0;
};

// T: float, double, Half, BFloat16. logits [rows, classes], targets [rows]; targets other than
// ignore_index must lie in [0, classes).

/// loss[row] (0 where ignored) and the log of the row's sum of exponentials.
template <class T>
void cross_entropy(double* loss, Compute<T>* lse, const T* logits, const int64_t* targets,
                   CrossEntropy options, int64_t rows, int64_t classes);

/// G: T, or BFloat16 where T is float.
template <class G, class T>
struct CrossEntropyGrad {
  G* dlogits;      ///< a row may start where that of the logits does
  int64_t stride;  ///< of the rows of dlogits
  const T* logits;
  const Compute<T>* lse;  ///< of cross_entropy()
  const int64_t* targets;
  CrossEntropy options;
  double scale;  ///< of the result
  int64_t rows, classes;
};
/// dlogits = scale * (softmax - target distribution), zero in ignored rows.
template <class G, class T>
void cross_entropy_grad(const CrossEntropyGrad<G, T>& loss);

}  // namespace heed::kernels
