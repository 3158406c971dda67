#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "heed/runtime.h"

namespace heed {

/// Element types. Those from q8_0 on are GGUF's block types: blocks of 32 or 256 weights along the
/// last axis (docs/formats/gguf.md).
enum class DType : uint8_t {
  f32,
  f64,
  f16,
  bf16,
  i32,
  i64,
  u8,
  boolean,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  mxfp4,
  iq2_xxs,
  iq2_xs,
  iq2_s,
  iq3_xxs,
  iq3_s,
  iq1_s,
  iq1_m,
  tq1_0,
  tq2_0,
};

HEED_API std::string_view name_of(DType type);
HEED_API DType dtype_from_name(std::string_view name);
HEED_API bool is_floating(DType type);  ///< f32, f64, f16, bf16
HEED_API bool is_quantized(DType type);
/// Elements per block: 32 or 256 for quantised types, 1 for all others.
HEED_API int64_t block_of(DType type);
/// Bytes of `count` elements, which must be a multiple of the type's block.
HEED_API int64_t bytes_of(DType type, int64_t count);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};

/// Up to eight dimensions, stored inline. Also used for strides (in elements).
class HEED_API Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(dims.begin(), dims.size()) {}
  explicit Shape(std::span<const int64_t> dims) : Shape(dims.data(), dims.size()) {}
  Shape(const int64_t* dims, size_t rank);

  int rank() const { return rank_; }
  size_t size() const { return static_cast<size_t>(rank_); }  ///< the rank, as of a container
  bool empty() const { return rank_ == 0; }
  int64_t operator[](int axis) const { return dims_[axis]; }
  int64_t& operator[](int axis) { return dims_[axis]; }
  const int64_t* begin() const { return dims_; }
  const int64_t* end() const { return dims_ + rank_; }
  bool operator==(const Shape& other) const;

  /// Product of the dimensions; throws on overflow or a negative dimension.
  int64_t numel() const;
  /// Index of an axis given as 0 … rank-1 or -rank … -1; throws where it is outside.
  int axis(int axis, std::string_view op) const;
  void push_back(int64_t dim);
  void insert(int axis, int64_t dim);
  void erase(int axis);
  std::string to_string() const;  ///< "[2, 3]"

 private:
  int64_t dims_[kMaxRank] = {};
  int rank_ = 0;
};

/// Shape of the result of an elementwise op on the two (NumPy's rules); throws naming both.
HEED_API Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view op);
HEED_API Shape contiguous_strides(const Shape& shape);

/// Elements [begin, end) of an axis, every `step`-th one, as Python's `begin:end:step`. Negative
/// bounds count from the end; bounds outside the axis are moved to its ends; a missing bound is the
/// axis's own. `Slice{}` is the whole axis.
struct Slice {
  std::optional<int64_t> begin = {};
  std::optional<int64_t> end = {};
  int64_t step = 1;  ///< at least 1
};

/// What Tensor::index() does with one axis: an integer drops it, a Slice keeps a part of it.
class TensorIndex {
 public:
  // Implicit, so that x.index({0, Slice{1, 3}}) reads as it does in NumPy.
  template <class I>
  requires std::is_integral_v<I> TensorIndex(I index) : index_(static_cast<int64_t>(index)) {}
  TensorIndex(Slice slice) : slice_(slice) {}

  bool is_integer() const { return index_.has_value(); }
  int64_t integer() const { return *index_; }
  const Slice& slice() const { return slice_; }

 private:
  std::optional<int64_t> index_;
  Slice slice_;
};

class Storage;
struct Node;        // an op's place in the history (autograd)
struct TensorImpl;  // shape, storage, gradient and history behind a handle

/// A handle to a strided array and its history. Copies share everything. A default-made Tensor is
/// undefined. Of its members only the subscripts (operator[], slice() and index()) record history;
/// the other differentiable operations are in heed/ops.h.
class HEED_API Tensor {
 public:
  Tensor() = default;
  // Not inline: what every file copies and destroys would be compiled into every file.
  Tensor(const Tensor& other);
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(const Tensor& other);
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor();

  static Tensor empty(const Shape& shape, DType type = DType::f32);
  static Tensor zeros(const Shape& shape, DType type = DType::f32);
  static Tensor ones(const Shape& shape, DType type = DType::f32);
  static Tensor full(const Shape& shape, double value, DType type = DType::f32);
  static Tensor scalar(double value, DType type = DType::f32);
  static Tensor arange(int64_t count, DType type = DType::i64);
  /// Copies the values; their count must be the shape's.
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape) {
    return copy_of(values.data(), values.size(), shape, DTypeOf<T>::value);
  }
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape) {
    return copy_of(values.data(), values.size(), shape, DTypeOf<T>::value);
  }
  /// One dimension: [values.size()].
  template <class T>
  static Tensor from(const std::vector<T>& values) {
    return from(values, {static_cast<int64_t>(values.size())});
  }
  template <class T>
  static Tensor from(std::initializer_list<T> values, const Shape& shape) {
    return copy_of(values.begin(), values.size(), shape, DTypeOf<T>::value);
  }
  /// A tensor over memory that `owner` keeps alive (a mapped file). Read-only by convention.
  static Tensor borrow(const void* data, const Shape& shape, DType type,
                       std::shared_ptr<const void> owner);

  bool defined() const { return impl_ != nullptr; }
  explicit operator bool() const { return defined(); }
  DType dtype() const;
  const Shape& shape() const;
  const Shape& strides() const;
  int rank() const { return shape().rank(); }
  int64_t size(int axis) const;  ///< negative axes count from the end
  int64_t numel() const;
  int64_t bytes() const;
  bool is_contiguous() const;
  bool same_as(const Tensor& other) const { return impl_ == other.impl_; }
  bool shares_storage_with(const Tensor& other) const;
  /// Who else holds this storage; 1 means nobody.
  int64_t storage_use_count() const;

  /// First element. The type must be the tensor's.
  template <class T>
  T* data() const {
    return static_cast<T*>(data_checked(DTypeOf<T>::value));
  }
  void* raw() const;
  /// The only element as a double.
  double item() const;
  /// All elements in row-major order, converted to doubles.
  std::vector<double> to_doubles() const;
  template <class T>
  std::vector<T> to_vector() const {
    const Tensor flat = to(DTypeOf<T>::value).contiguous();
    const T* first = flat.template data<T>();
    return std::vector<T>(first, first + flat.numel());
  }

  /// Row `index` of the first axis, which is dropped; negative indices count from the end. A view
  /// with history.
  Tensor operator[](int64_t index) const;
  /// Elements [begin, end) of an axis: a view with history. Bounds as in Slice.
  Tensor slice(int axis, std::optional<int64_t> begin, std::optional<int64_t> end = {},
               int64_t step = 1) const;
  /// One index per axis, from the first on; axes without one are kept whole:
  /// `x.index({0, Slice{1, -1}})` is NumPy's `x[0, 1:-1]`. A view with history.
  Tensor index(std::initializer_list<TensorIndex> indices) const;

  /// Another view of the same storage, without history: the ground of reshape, slice and the like.
  Tensor alias(const Shape& shape, const Shape& strides, int64_t offset_in_elements) const;
  Tensor detach() const;                 ///< same storage, no history
  Tensor clone() const;                  ///< contiguous copy, no history
  Tensor contiguous() const;             ///< itself where already contiguous, else clone()
  Tensor to(DType type) const;           ///< itself where already of that type; else converted
  void copy_from(const Tensor& source);  ///< same shape; converts the type; counts as in-place
  void fill(double value);               ///< counts as in-place

  bool requires_grad() const;  ///< a leaf that wants a gradient, or a result of one
  Tensor& set_requires_grad(bool wanted);
  bool is_leaf() const;
  /// The gradient backward() left here; an undefined tensor where there is none.
  Tensor grad() const;
  void set_grad(const Tensor& gradient);
  /// Counts in-place writes to the storage, so that a gradient that reads an overwritten value is
  /// caught.
  uint32_t version() const;
  void bump_version();

  /// NumPy's layout, summarised beyond 1,000 elements.
  std::string to_string() const;

  TensorImpl* impl() const { return impl_.get(); }
  const std::shared_ptr<TensorImpl>& share_impl() const { return impl_; }
  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}

 private:
  static Tensor copy_of(const void* values, size_t count, const Shape& shape, DType type);
  void* data_checked(DType type) const;

  std::shared_ptr<TensorImpl> impl_;
};

HEED_API std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

// New tensors by NumPy's names.
inline Tensor zeros(const Shape& shape, DType type = DType::f32) {
  return Tensor::zeros(shape, type);
}
inline Tensor ones(const Shape& shape, DType type = DType::f32) {
  return Tensor::ones(shape, type);
}
inline Tensor full(const Shape& shape, double value, DType type = DType::f32) {
  return Tensor::full(shape, value, type);
}
/// 0, 1, …, count - 1.
inline Tensor arange(int64_t count, DType type = DType::i64) { return Tensor::arange(count, type); }
HEED_API Tensor arange_integers(int64_t start, int64_t stop, int64_t step, DType type);
HEED_API Tensor arange_reals(double start, double stop, double step, DType type);
/// start, start + step, … up to but without `stop`; i64 where all three are integers, else f32.
template <class Start, class Stop, class Step = int>
requires std::is_arithmetic_v<Start> && std::is_arithmetic_v<Stop> && std::is_arithmetic_v<Step>
    Tensor arange(Start start, Stop stop, Step step = 1) {
  if constexpr (std::is_integral_v<Start> && std::is_integral_v<Stop> && std::is_integral_v<Step>) {
    return arange_integers(start, stop, step, DType::i64);
  } else {
    return arange_reals(start, stop, step, DType::f32);
  }
}

struct RandomOptions {
  std::optional<uint64_t> seed = {};  ///< none: the next stream of the thread's random state
  DType dtype = DType::f32;
};
/// Uniform in [0, 1). An element depends on the seed and its index only.
HEED_API Tensor rand(const Shape& shape, const RandomOptions& options = {});
/// Standard normal, likewise.
HEED_API Tensor randn(const Shape& shape, const RandomOptions& options = {});

// Gradients ---------------------------------------------------------------------------------------

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
