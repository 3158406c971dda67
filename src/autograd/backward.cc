#include <map>
#include <unordered_map>

#include "autograd/node.h"
#include "base/check.h"
#include "kernels/elementwise.h"
#include "tensor/dispatch.h"

namespace heed {
namespace {

/// into += gradient; both contiguous, same shape and type.
void accumulate(Tensor& into, const Tensor& gradient) {
  dispatch_float(into.dtype(), "backward", [&](auto tag) {
    using T = decltype(tag);
    kernels::add_inplace(into.data<T>(), gradient.data<T>(), into.numel());
  });
}

/// Whether nobody but this handle can see the memory.
bool is_sole_owner(const Tensor& tensor) {
  return tensor.is_contiguous() && tensor.share_impl().use_count() == 1 &&
         tensor.storage_use_count() == 1;
}

/// Sums contributions in the order in which they arrive, which is fixed by the recording order.
/// A copy is made only where neither side may be written.
class Gradient {
 public:
  void add(Tensor& contribution, const char* op) {
    if (!sum_.defined()) {
      sum_ = std::move(contribution);
      return;
    }
    check(sum_.dtype() == contribution.dtype(), op, "gradients of {} and {} meet",
          name_of(sum_.dtype()), name_of(contribution.dtype()));
    if (!is_sole_owner(sum_) && is_sole_owner(contribution)) {
      std::swap(sum_, contribution);  // a + b is b + a, bit for bit
    } else if (!is_sole_owner(sum_)) {
      sum_ = sum_.clone();
    }
    accumulate(sum_, contribution.contiguous());
  }
  Tensor take() { return std::move(sum_); }

 private:
  Tensor sum_;
};

class Engine {
 public:
  explicit Engine(bool keep_history) : keep_history_(keep_history) {}

  void run(const Tensor& y, const Tensor& dy) {
    const Node::Edge root = edge_to(y);
    if (root.node) {
      count_leaf_uses(root.node);
    } else {
      leaf_uses_[root.leaf.get()] = 1;
    }
    Tensor first = dy;
    deliver(root, first, "backward");
    while (!ready_.empty()) {
      auto last = std::prev(ready_.end());
      const std::shared_ptr<Node> node = last->second;
      ready_.erase(last);
      run_node(*node);
    }
  }

 private:
  /// How many times each leaf appears as an input, so that its hooks run after the last one.
  void count_leaf_uses(const std::shared_ptr<Node>& root) {
    std::vector<Node*> pending{root.get()};
    std::unordered_map<Node*, bool> seen{{root.get(), true}};
    while (!pending.empty()) {
      Node* node = pending.back();
      pending.pop_back();
      check(!node->freed, "backward",
            "the history of '{}' was freed by an earlier backward(); pass keep_history = true "
            "there, or compute the result again",
            node->op);
      for (const Node::Edge& edge : node->inputs) {
        if (edge.leaf) {
          ++leaf_uses_[edge.leaf.get()];
        }
        if (edge.node && !seen[edge.node.get()]) {
          seen[edge.node.get()] = true;
          pending.push_back(edge.node.get());
        }
      }
    }
  }

  void run_node(Node& node) {
    auto found = gradients_.find(&node);
    std::vector<Tensor> dys(static_cast<size_t>(node.outputs));
    for (size_t i = 0; i < dys.size(); ++i) {
      dys[i] = found->second[i].take();
    }
    gradients_.erase(found);
    std::vector<Tensor> dxs;
    {
      NoGrad no_grad;
      dxs = node.grad(dys);
    }
    dys.clear();
    check(dxs.size() == node.inputs.size(), node.op, "gave {} gradients for {} inputs", dxs.size(),
          node.inputs.size());
    std::vector<Node::Edge> inputs = node.inputs;
    if (!keep_history_) {
      node.grad = nullptr;
      node.freed = true;
      node.inputs.clear();
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool wanted = inputs[i].node || inputs[i].leaf;
      if (wanted && dxs[i].defined()) {
        check(dxs[i].shape() == node.input_shapes[i], node.op,
              "gradient of input {} has shape {}; the input has {}", i, dxs[i].shape(),
              node.input_shapes[i]);
      }
      if (wanted) {
        deliver(inputs[i], dxs[i], node.op);
      }
      dxs[i] = Tensor();
    }
  }

  void deliver(const Node::Edge& edge, Tensor& dx, const char* op) {
    if (edge.leaf) {
      deliver_to_leaf(edge.leaf, dx, op);
      return;
    }
    // An op runs when it is the latest one recorded among those that wait: all that use its result
    // were recorded after it, so they are done.
    auto [entry, fresh] = gradients_.try_emplace(edge.node.get());
    if (fresh) {
      entry->second.resize(static_cast<size_t>(edge.node->outputs));
      ready_.emplace(edge.node->order, edge.node);
    }
    if (dx.defined()) {
      entry->second[static_cast<size_t>(edge.output)].add(dx, op);
    }
  }

  void deliver_to_leaf(const std::shared_ptr<TensorImpl>& leaf, const Tensor& dx, const char* op) {
    Tensor tensor(leaf);
    if (dx.defined()) {
      const Tensor before = tensor.grad();
      if (before.defined()) {
        check(before.dtype() == dx.dtype(), op, "gradients of {} and {} meet",
              name_of(before.dtype()), name_of(dx.dtype()));
        Tensor into = before;
        accumulate(into, dx.contiguous());
      } else {
        // Taken as it is where nobody else holds the memory; one reference is dx's own.
        const bool sole = dx.is_contiguous() && dx.storage_use_count() == 1;
        tensor.set_grad(sole ? dx.detach() : dx.clone());
      }
    }
    if (--leaf_uses_[leaf.get()] == 0) {
      for (const auto& hook : leaf->grad_hooks) {
        hook(tensor);
      }
    }
  }

  bool keep_history_;
  std::map<uint64_t, std::shared_ptr<Node>> ready_;
  std::unordered_map<Node*, std::vector<Gradient>> gradients_;
  std::unordered_map<TensorImpl*, int64_t> leaf_uses_;
};

}  // namespace

void backward(const Tensor& y, const Tensor& dy, bool keep_history) {
  check(y.defined() && y.requires_grad(), "backward",
        "the result does not depend on any tensor that requires a gradient");
  check(dy.shape() == y.shape(), "backward", "gradient {} for a result of shape {}", dy.shape(),
        y.shape());
  check(dy.dtype() == y.dtype(), "backward", "gradient of {} for a result of {}",
        name_of(dy.dtype()), name_of(y.dtype()));
  Engine(keep_history).run(y, dy);
}

void backward(const Tensor& loss, bool keep_history) {
  check(loss.defined() && loss.numel() == 1, "backward",
        "a result of shape {} needs its gradient given: backward(y, dy)",
        loss.defined() ? loss.shape().to_string() : "undefined");
  backward(loss, Tensor::full(loss.shape(), 1.0, loss.dtype()), keep_history);
}

}  // namespace heed
