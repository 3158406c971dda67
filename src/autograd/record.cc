#include <atomic>

#include "autograd/node.h"
#include "base/check.h"

namespace heed {
namespace {
thread_local bool t_grad_enabled = true;
std::atomic<uint64_t> g_order{0};
}  // namespace

/// Frees a long history without recursion: a chain of a hundred thousand ops must not overflow the
/// stack.
Node::~Node() {
  std::vector<std::shared_ptr<Node>> pending;
  auto take = [&pending](Node& node) {
    node.grad = nullptr;
    for (Edge& edge : node.inputs) {
      if (edge.node) {
        pending.push_back(std::move(edge.node));
      }
    }
    node.inputs.clear();
  };
  take(*this);
  while (!pending.empty()) {
    std::shared_ptr<Node> node = std::move(pending.back());
    pending.pop_back();
    if (node.use_count() == 1) {
      take(*node);
    }
  }
}

NoGrad::NoGrad() : before_(t_grad_enabled) { t_grad_enabled = false; }
NoGrad::~NoGrad() { t_grad_enabled = before_; }
WithGrad::WithGrad() : before_(t_grad_enabled) { t_grad_enabled = true; }
WithGrad::~WithGrad() { t_grad_enabled = before_; }
bool grad_enabled() { return t_grad_enabled; }

const Tensor& Saved::get() const {
  if (tensor_.defined() && tensor_.version() != version_) {
    fail(ErrorKind::runtime, "backward",
         "a tensor of shape {} that the gradient needs was changed in place after it was used; "
         "clone() it before changing it",
         tensor_.shape());
  }
  return tensor_;
}

bool needs_grad(std::span<const Tensor> inputs) {
  if (!t_grad_enabled) {
    return false;
  }
  for (const Tensor& input : inputs) {
    if (input.requires_grad()) {
      return true;
    }
  }
  return false;
}

bool needs_grad(std::initializer_list<Tensor> inputs) {
  return needs_grad(std::span(inputs.begin(), inputs.size()));
}

Node::Edge edge_to(const Tensor& tensor) {
  Node::Edge edge;
  if (!tensor.requires_grad()) {
    return edge;
  }
  TensorImpl* impl = tensor.impl();
  if (impl->node) {
    edge.node = impl->node;
    edge.output = impl->output;
  } else {
    edge.leaf = tensor.share_impl();
  }
  return edge;
}

std::vector<Tensor> record_multi(const char* op, std::vector<Tensor> ys,
                                 std::span<const Tensor> inputs, MultiGradFn grad) {
  if (!needs_grad(inputs)) {
    return ys;
  }
  auto node = std::make_shared<Node>();
  node->op = op;
  node->order = ++g_order;
  node->outputs = static_cast<int>(ys.size());
  node->grad = std::move(grad);
  for (const Tensor& input : inputs) {
    node->inputs.push_back(edge_to(input));
    node->input_shapes.push_back(input.defined() ? input.shape() : Shape());
  }
  for (size_t i = 0; i < ys.size(); ++i) {
    // A result that is one of the inputs (a no-op view) must not become its own ancestor.
    for (const Tensor& input : inputs) {
      if (ys[i].same_as(input)) {
        ys[i] = ys[i].detach();
      }
    }
    TensorImpl* impl = ys[i].impl();
    impl->node = node;
    impl->output = static_cast<int>(i);
    impl->requires_grad = true;
    node->output_shapes.push_back(ys[i].shape());
  }
  return ys;
}

Tensor record(const char* op, Tensor y, std::span<const Tensor> inputs, GradFn grad) {
  if (!needs_grad(inputs)) {
    return y;
  }
  return record_multi(
             op, {std::move(y)}, inputs,
             [grad = std::move(grad)](const std::vector<Tensor>& dys) { return grad(dys.front()); })
      .front();
}

Tensor record(const char* op, Tensor y, std::initializer_list<Tensor> inputs, GradFn grad) {
  return record(op, std::move(y), std::span(inputs.begin(), inputs.size()), std::move(grad));
}

void on_grad_ready(const Tensor& leaf, std::function<void(const Tensor&)> fn) {
  check(leaf.defined() && leaf.is_leaf() && leaf.requires_grad(), "on_grad_ready",
        "takes a leaf that requires a gradient");
  leaf.impl()->grad_hooks.push_back(std::move(fn));
}

}  // namespace heed
