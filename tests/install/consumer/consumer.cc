// Trains one matrix to rotate a plane by a quarter turn and shows where an attention call looks.
#include <iostream>

#include "heed/attention.h"
#include "heed/models.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "heed/train.h"

int main() {
  using namespace heed;
  const Tensor x = Tensor::from<float>({1, 0, 0, 1}, {2, 2});
  const Tensor target = Tensor::from<float>({0, 1, -1, 0}, {2, 2});
  Tensor w = Tensor::zeros({2, 2});
  w.set_requires_grad(true);
  Optimizer optimizer(std::vector<NamedTensor>{{"w", w}}, {.kind = OptimizerKind::sgd, .lr = 0.5});
  for (int step = 0; step < 100; ++step) {
    const Tensor error = sub(linear(x, w, {}), target);
    backward(mean(mul(error, error)));
    optimizer.step();
    optimizer.zero_grad();
  }
  std::cout << w.to_string() << "\n";
  const Tensor q = Tensor::full({1, 1, 3, 4}, 1.0);
  std::cout << attention(q, q, q, {.position = Causal{}}).shape().to_string() << "\n";
  std::cout << known_model_types().size() << " kinds of models\n";
  try {
    load_model("there/is/no/such/folder");
  } catch (const Error& error) {  // thrown by the library, caught outside of it
    std::cout << "error: " << error.what() << "\n";
  }
}
