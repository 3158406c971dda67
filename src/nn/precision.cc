#include "heed/precision.h"

#include <algorithm>

#include "base/check.h"
#include "heed/ops.h"

namespace heed {
namespace {
thread_local DType t_activations = DType::f32;
}  // namespace

ActivationScope::ActivationScope(DType type) : before_(t_activations) {
  check(type == DType::f32 || type == DType::bf16 || type == DType::f16, "precision",
        "{} is not one of f32, bf16, f16", name_of(type));
  t_activations = type;
}
ActivationScope::~ActivationScope() { t_activations = before_; }
DType activation_type() { return t_activations; }

Tensor in_products(const Tensor& rows) {
  const bool rounds = t_activations == DType::bf16 && rows.dtype() == DType::f32;
  return rounds ? cast(rows, DType::bf16) : rows;
}

bool LossScale::update(bool finite) {
  if (!finite) {
    const bool explained = scale > 1.0;
    scale = std::max(1.0, scale / 2.0);
    good = 0;
    return explained;
  }
  if (++good >= kGrowAfter) {
    scale = std::min(kLargest, scale * 2.0);
    good = 0;
  }
  return false;
}

}  // namespace heed
