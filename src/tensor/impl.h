#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "heed/tensor.h"

namespace heed {

/// A block of memory: from the caching allocator, or borrowed from an owner.
class Storage {
 public:
  explicit Storage(int64_t bytes);
  Storage(const void* data, int64_t bytes, std::shared_ptr<const void> owner)
      : data_(const_cast<void*>(data)), bytes_(bytes), owner_(std::move(owner)) {}
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  /// Copies borrowed memory into a block of its own and gives back who owned it; null where nobody
  /// did. Nobody may read meanwhile.
  std::shared_ptr<const void> take_over();

  bool is_borrowed() const { return owner_ != nullptr; }

  std::atomic<uint32_t> version{0};

  /// A second form of constant contents, which an op makes where it is wanted and keeps here:
  /// weights in the order in which products read them (ops/quantized.h).
  struct SecondForm {
    std::atomic<int> uses{0};  // before it was made
    std::once_flag made;
    std::unique_ptr<Storage> storage;
    uint32_t version = 0;  // of the contents that it was made from
  };
  std::unique_ptr<SecondForm> second_form;  // null: not wanted

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
  std::shared_ptr<const void> owner_;  // null: the caching allocator's
};

struct TensorImpl {
  std::shared_ptr<Storage> storage;
  int64_t offset = 0;  // in elements (block types: a multiple of the block)
  Shape shape;
  Shape strides;
  DType dtype = DType::f32;
  bool contiguous = true;

  // History, owned by autograd.
  bool requires_grad = false;
  std::shared_ptr<Node> node;  // the op that made this; null for leaves
  int output = 0;              // which of the op's results
  std::shared_ptr<TensorImpl> grad;
  std::vector<std::function<void(const Tensor&)>>
      grad_hooks;  // called when a leaf's gradient is ready
};

}  // namespace heed
