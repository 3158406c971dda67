#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace heed::kernels {

// One range on the calling thread. T is the parameter's type, C its compute type. `master` holds
// the weights in C; where T is C, `value` is the same memory, else it receives the rounded weights.

struct AdamStep {
  double lr = 0.0;
  double beta1 = 0.0;
  double beta2 = 0.0;
  double eps = 0.0;
  double decay = 0.0;
  bool decoupled = true;     // AdamW: the decay does not pass through the averages
  double correction1 = 1.0;  // 1 - beta1^t
  double correction2 = 1.0;  // 1 - beta2^t
  double grad_scale = 1.0;
};
template <class T>
void adam_range(Compute<T>* master, T* value, Compute<T>* average, Compute<T>* average_square,
                const T* gradient, const AdamStep& step, int64_t count);

struct SgdStep {
  double lr = 0.0;
  double momentum = 0.0;
  bool nesterov = false;
  double decay = 0.0;
  double grad_scale = 1.0;
};
/// `velocity` may be null where momentum is 0.
template <class T>
void sgd_range(Compute<T>* master, T* value, Compute<T>* velocity, const T* gradient,
               const SgdStep& step, int64_t count);

}  // namespace heed::kernels
