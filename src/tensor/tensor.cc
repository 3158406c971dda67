#include "heed/tensor.h"

#include <cstring>
#include <utility>

#include "base/allocator.h"
#include "base/check.h"
#include "base/parallel.h"
#include "tensor/dispatch.h"
#include "tensor/impl.h"
#include "tensor/walk.h"

namespace heed {

Storage::Storage(int64_t bytes) : data_(allocate_block(bytes)), bytes_(bytes) {}

Storage::~Storage() {
  if (owner_ == nullptr) {
    free_block(data_, bytes_);
  }
}

std::shared_ptr<const void> Storage::take_over() {
  if (owner_ == nullptr) {
    return nullptr;
  }
  constexpr int64_t kPiece = int64_t{1} << 20;
  void* block = allocate_block(bytes_);
  parallel_ranges(bytes_, kPiece, [&](int64_t from, int64_t to) {
    std::memcpy(static_cast<char*>(block) + from, static_cast<const char*>(data_) + from,
                static_cast<size_t>(to - from));
  });
  data_ = block;
  return std::exchange(owner_, nullptr);
}

namespace {

const TensorImpl& checked(const TensorImpl* impl) {
  check(impl != nullptr, "tensor", "used before it was given a value");
  return *impl;
}

Tensor make(std::shared_ptr<Storage> storage, const Shape& shape, DType type) {
  auto impl = std::make_shared<TensorImpl>();
  impl->storage = std::move(storage);
  impl->shape = shape;
  impl->strides = contiguous_strides(shape);
  impl->dtype = type;
  return Tensor(std::move(impl));
}

bool strides_are_contiguous(const Shape& shape, const Shape& strides) {
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != step) {
      return shape.numel() == 0;
    }
    step *= shape[i];
  }
  return true;
}

}  // namespace

Tensor::Tensor(const Tensor& other) = default;
Tensor::Tensor(Tensor&& other) noexcept = default;
Tensor& Tensor::operator=(const Tensor& other) = default;
Tensor& Tensor::operator=(Tensor&& other) noexcept = default;
Tensor::~Tensor() = default;

Tensor Tensor::empty(const Shape& shape, DType type) {
  return make(std::make_shared<Storage>(bytes_of(type, shape.numel())), shape, type);
}

Tensor Tensor::zeros(const Shape& shape, DType type) {
  Tensor result = empty(shape, type);
  std::memset(result.raw(), 0, static_cast<size_t>(result.bytes()));
  return result;
}

Tensor Tensor::full(const Shape& shape, double value, DType type) {
  Tensor result = empty(shape, type);
  result.fill(value);
  return result;
}

Tensor Tensor::scalar(double value, DType type) { return full({}, value, type); }

Tensor Tensor::copy_of(const void* values, size_t count, const Shape& shape, DType type) {
  check(static_cast<int64_t>(count) == shape.numel(), "from", "{} values do not fill shape {}",
        count, shape);
  Tensor result = empty(shape, type);
  if (count > 0) {
    std::memcpy(result.raw(), values, static_cast<size_t>(result.bytes()));
  }
  return result;
}

Tensor Tensor::borrow(const void* data, const Shape& shape, DType type,
                      std::shared_ptr<const void> owner) {
  check(owner != nullptr, "borrow", "needs an owner that keeps the memory alive");
  return make(std::make_shared<Storage>(data, bytes_of(type, shape.numel()), std::move(owner)),
              shape, type);
}

DType Tensor::dtype() const { return checked(impl()).dtype; }
const Shape& Tensor::shape() const { return checked(impl()).shape; }
const Shape& Tensor::strides() const { return checked(impl()).strides; }
int64_t Tensor::size(int axis) const { return shape()[shape().axis(axis, "size")]; }
int64_t Tensor::numel() const { return shape().numel(); }
int64_t Tensor::bytes() const { return bytes_of(dtype(), numel()); }
bool Tensor::is_contiguous() const { return checked(impl()).contiguous; }

bool Tensor::shares_storage_with(const Tensor& other) const {
  return checked(impl()).storage == checked(other.impl()).storage;
}

int64_t Tensor::storage_use_count() const { return checked(impl()).storage.use_count(); }

void* Tensor::raw() const {
  const TensorImpl& t = checked(impl());
  return static_cast<char*>(t.storage->data()) + bytes_of(t.dtype, t.offset);
}

void* Tensor::data_checked(DType type) const {
  check(dtype() == type, "data", "a tensor of {} is read as {}; convert it with to() first",
        name_of(dtype()), name_of(type));
  return raw();
}

double Tensor::item() const {
  check(numel() == 1, "item", "shape {} has {} elements; exactly one is wanted", shape(), numel());
  return dispatch_dtype(dtype(), "item",
                        [&](auto tag) { return load_double(*static_cast<decltype(tag)*>(raw())); });
}

std::vector<double> Tensor::to_doubles() const {
  const Tensor flat = contiguous();
  std::vector<double> values(static_cast<size_t>(numel()));
  dispatch_dtype(dtype(), "to_doubles", [&](auto tag) {
    const auto* in = static_cast<const decltype(tag)*>(flat.raw());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = load_double(in[i]);
    }
  });
  return values;
}

Tensor Tensor::alias(const Shape& shape, const Shape& strides, int64_t offset) const {
  const TensorImpl& t = checked(impl());
  auto view = std::make_shared<TensorImpl>();
  view->storage = t.storage;
  view->offset = t.offset + offset;
  view->shape = shape;
  view->strides = strides;
  view->dtype = t.dtype;
  view->contiguous = strides_are_contiguous(shape, strides);
  return Tensor(std::move(view));
}

Tensor Tensor::detach() const { return alias(shape(), strides(), 0); }

Tensor Tensor::clone() const {
  Tensor result = empty(shape(), dtype());
  result.copy_from(*this);
  return result;
}

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

Tensor Tensor::to(DType type) const {
  if (type == dtype()) {
    return *this;
  }
  Tensor result = empty(shape(), type);
  result.copy_from(*this);
  return result;
}

void Tensor::fill(double value) {
  bump_version();
  dispatch_dtype(dtype(), "fill", [&](auto tag) {
    using T = decltype(tag);
    const T element = from_double<T>(value);
    walk_rows<1>(shape(), {&strides()},
                 [&](std::array<int64_t, 1> at, std::array<int64_t, 1> step, int64_t count) {
                   T* out = static_cast<T*>(raw()) + at[0];
                   for (int64_t i = 0; i < count; ++i) {
                     out[i * step[0]] = element;
                   }
                 });
  });
}

bool Tensor::requires_grad() const { return impl_ != nullptr && impl_->requires_grad; }

Tensor& Tensor::set_requires_grad(bool wanted) {
  checked(impl());
  check(!wanted || is_floating(dtype()), "set_requires_grad", "a {} tensor has no gradient",
        name_of(dtype()));
  check(impl_->node == nullptr, "set_requires_grad",
        "only a leaf can be switched; detach() the result of an op first");
  impl_->requires_grad = wanted;
  return *this;
}

bool Tensor::is_leaf() const { return checked(impl()).node == nullptr; }
Tensor Tensor::grad() const { return Tensor(checked(impl()).grad); }

void Tensor::set_grad(const Tensor& gradient) {
  check(!gradient.defined() || gradient.shape() == shape(), "set_grad",
        "gradient {} for a tensor of shape {}", gradient.defined() ? gradient.shape() : Shape(),
        shape());
  checked(impl());
  impl_->grad = gradient.impl_;
}

uint32_t Tensor::version() const { return checked(impl()).storage->version.load(); }
void Tensor::bump_version() { checked(impl()).storage->version.fetch_add(1); }

}  // namespace heed
