#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "heed/export.h"
#include "heed/tensor.h"

namespace heed {

/// While one of these lives, run_blocks() on this thread computes with activations of this type
/// (f32, bf16 or f16). Parameters, their gradients and every sum inside a product, norm or softmax
/// stay in f32, so nothing else of a training step changes.
class HEED_API ActivationScope {
 public:
  explicit ActivationScope(DType type);
  ~ActivationScope();
  ActivationScope(const ActivationScope&) = delete;
  ActivationScope& operator=(const ActivationScope&) = delete;

 private:
  std::optional<DType> before_;
};
/// That of the scope, or outside any scope what set_activation_type() said.
HEED_API DType activation_type();

/// Makes models run with activations of this type (f32 or bf16) on every thread that has no
/// ActivationScope. With bf16, load_model() rounds matrices of f32 to bf16. Passes with a cache
/// (generation) keep activations in f32, because they are bound by reading the weights, and so do
/// passes that an Observer watches.
HEED_API void set_activation_type(DType type);

/// Products with a quantised weight round their inputs to 8 bits, block by block. While one of
/// these lives, Linear layers of this thread dequantise such a weight and read inputs as they are:
/// a sum of inputs gives the sum of their outputs then.
class HEED_API UnroundedInputScope {
 public:
  UnroundedInputScope();
  ~UnroundedInputScope();
  UnroundedInputScope(const UnroundedInputScope&) = delete;
  UnroundedInputScope& operator=(const UnroundedInputScope&) = delete;

 private:
  bool before_;
};
/// Whether this thread is inside such a scope.
HEED_API bool reads_unrounded_inputs();

/// f32 rows as a product outside the blocks (an LM head) is to read them: in bf16 inside an
/// ActivationScope of bf16, else as they are.
HEED_API Tensor in_products(const Tensor& rows);

/// Keeps gradients of f16 activations away from 0: the loss is multiplied by `scale`, the
/// optimizer divides. An overflow halves it, `kGrowAfter` good steps double it. 1 for other types.
struct HEED_API LossScale {
  static constexpr int64_t kGrowAfter = 2000;
  static constexpr double kFirst = 65536.0;
  static constexpr double kLargest = 16777216.0;

  double scale = 1.0;
  int64_t good = 0;  ///< steps since the last change

  static LossScale for_type(DType type) { return {type == DType::f16 ? kFirst : 1.0, 0}; }
  /// After a step of f16; returns whether an overflow is explained by the scale.
  bool update(bool finite);
};

}  // namespace heed
