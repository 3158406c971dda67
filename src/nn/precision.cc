#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "heed/ops.h"

namespace heed {
namespace {

std::atomic<DType> g_activations{DType::f32};
thread_local std::optional<DType> t_activations;
thread_local bool t_unrounded = false;

}  // namespace

ActivationScope::ActivationScope(DType type) : before_(t_activations) {
  check(type == DType::f32 || type == DType::bf16 || type == DType::f16, "precision",
        "{} is not one of f32, bf16, f16", name_of(type));
  t_activations = type;
}
ActivationScope::~ActivationScope() { t_activations = before_; }
DType activation_type() { return t_activations.value_or(g_activations.load()); }

void set_activation_type(DType type) {
  check(type == DType::f32 || type == DType::bf16, "precision", "{} is not one of f32, bf16",
        name_of(type));
  g_activations = type;
}

UnroundedInputScope::UnroundedInputScope() : before_(t_unrounded) { t_unrounded = true; }
UnroundedInputScope::~UnroundedInputScope() { t_unrounded = before_; }
bool reads_unrounded_inputs() { return t_unrounded; }

Tensor in_products(const Tensor& rows) {
  const bool rounds = activation_type() == DType::bf16 && rows.dtype() == DType::f32;
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
