#include "autograd/node.h"
#include "base/check.h"
#include "heed/runtime.h"

namespace heed {

Tensor checkpoint(std::function<Tensor(const std::vector<Tensor>&)> fn,
                  std::vector<Tensor> inputs) {
  if (!grad_enabled()) {
    return fn(inputs);
  }
  const RandomState start = random_state();
  Tensor y;
  {
    NoGrad no_grad;
    y = fn(inputs);
  }
  // fn may read parameters that are no inputs, so it is recorded even if no input needs a gradient:
  // a token that requires one stands for them.
  Tensor parameters = Tensor::zeros({});
  parameters.set_requires_grad(true);
  std::vector<Tensor> all = inputs;
  all.push_back(parameters);
  std::vector<Saved> saved(inputs.begin(), inputs.end());
  std::vector<bool> wanted;
  wanted.reserve(inputs.size());
  for (const Tensor& input : inputs) {
    wanted.push_back(input.requires_grad());
  }
  return record("checkpoint", y.detach(), all,
                [fn = std::move(fn), saved = std::move(saved), wanted, start](const Tensor& dy) {
                  const WithGrad with_grad;
                  std::vector<Tensor> again;
                  for (size_t i = 0; i < saved.size(); ++i) {
                    Tensor input = saved[i].get();
                    if (wanted[i]) {
                      input = input.detach();
                      input.set_requires_grad(true);
                    }
                    again.push_back(input);
                  }
                  const RandomState after = random_state();
                  set_random_state(start);
                  const Tensor y_again = fn(again);
                  set_random_state(after);
                  backward(y_again, dy);
                  std::vector<Tensor> dxs;
                  dxs.reserve(again.size());
                  for (const Tensor& input : again) {
                    dxs.push_back(input.requires_grad() ? input.grad() : Tensor());
                  }
                  dxs.emplace_back();
                  return dxs;
                });
}

}  // namespace heed
