#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "heed/tensor.h"
#include "tensor/impl.h"

namespace heed {

/// An op's place in the history.
struct Node {
  /// Where the gradient of one input goes: the op that made it, or a leaf, or nowhere.
  struct Edge {
    std::shared_ptr<Node> node;
    int output = 0;
    std::shared_ptr<TensorImpl> leaf;
  };

  ~Node();

  const char* op = "";
  uint64_t order = 0;  // grows with recording: later ops run first in the backward pass
  int outputs = 1;
  std::vector<Edge> inputs;
  std::vector<Shape> output_shapes;
  std::vector<Shape> input_shapes;
  MultiGradFn grad;
  bool freed = false;
};

/// Recording is on again while one of these lives: for a gradient that runs ops anew.
class WithGrad {
 public:
  WithGrad();
  ~WithGrad();
  WithGrad(const WithGrad&) = delete;
  WithGrad& operator=(const WithGrad&) = delete;

 private:
  bool before_;
};

/// An edge to where gradients of `tensor` go.
Node::Edge edge_to(const Tensor& tensor);

}  // namespace heed
