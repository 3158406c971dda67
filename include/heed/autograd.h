#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "heed/tensor.h"

namespace heed {

/// The gradient of one op: the gradient of its result in, one gradient for each input out
/// (undefined where an input needs none).
using GradFn = std::function<std::vector<Tensor>(const Tensor& dy)>;
/// The same for an op with several results; an undefined dy means that nobody used that result.
using MultiGradFn = std::function<std::vector<Tensor>(const std::vector<Tensor>& dys)>;

/// Adds an op to the history of its result and returns the result. Does nothing where no input
/// needs a gradient or inside NoGrad. Capture what the gradient reads as Saved, never the result
/// itself.
HEED_API Tensor record(const char* op, Tensor y, std::initializer_list<Tensor> inputs, GradFn grad);
HEED_API Tensor record(const char* op, Tensor y, std::span<const Tensor> inputs, GradFn grad);
HEED_API std::vector<Tensor> record_multi(const char* op, std::vector<Tensor> ys,
                                          std::span<const Tensor> inputs, MultiGradFn grad);
/// True where record() would record for these inputs: ops skip saving where it is false.
HEED_API bool needs_grad(std::initializer_list<Tensor> inputs);
HEED_API bool needs_grad(std::span<const Tensor> inputs);

/// A tensor kept for the gradient. get() throws where somebody wrote to it in the meantime.
class HEED_API Saved {
 public:
  Saved() = default;
  explicit Saved(const Tensor& tensor)
      : tensor_(tensor.defined() ? tensor.detach() : tensor),
        version_(tensor.defined() ? tensor.version() : 0) {}
  const Tensor& get() const;

 private:
  Tensor tensor_;
  uint32_t version_ = 0;
};

/// Computes the gradient of a scalar with respect to every leaf it depends on and adds it to the
/// leaves' grad(). The history is freed on the way unless `keep_history`.
HEED_API void backward(const Tensor& loss, bool keep_history = false);
/// The same for any result, with its gradient given.
HEED_API void backward(const Tensor& y, const Tensor& dy, bool keep_history = false);

/// No history is recorded on this thread while one of these lives.
class HEED_API NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};
HEED_API bool grad_enabled();

/// Runs fn(inputs) without keeping its intermediate results; backward() runs it again, with the
/// same random numbers, when it needs them. fn may read other leaves (parameters) too: their
/// gradients are accumulated as usual.
HEED_API Tensor checkpoint(std::function<Tensor(const std::vector<Tensor>&)> fn,
                           std::vector<Tensor> inputs);

/// Calls fn(leaf) as soon as backward() has added the last contribution to leaf.grad().
HEED_API void on_grad_ready(const Tensor& leaf, std::function<void(const Tensor&)> fn);

}  // namespace heed
