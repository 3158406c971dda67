#include <algorithm>

#include "base/check.h"
#include "heed/tensor.h"

namespace heed {

Shape::Shape(const int64_t* dims, size_t rank) : rank_(static_cast<int>(rank)) {
  check(rank <= kMaxRank, "shape", "{} axes; at most {} are supported", rank, kMaxRank);
  std::copy(dims, dims + rank, dims_);
}

bool Shape::operator==(const Shape& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

int64_t Shape::numel() const {
  int64_t product = 1;
  for (const int64_t dim : *this) {
    check(dim >= 0, "shape", "{} has a negative dimension", *this);
    check(!__builtin_mul_overflow(product, dim, &product) && product < (int64_t{1} << 60), "shape",
          "{} has more elements than can be addressed", *this);
  }
  return product;
}

int Shape::axis(int axis, std::string_view op) const {
  check(axis >= -rank_ && axis < rank_, op, "axis {} out of range for shape {}", axis, *this);
  return axis < 0 ? axis + rank_ : axis;
}

void Shape::push_back(int64_t dim) { insert(rank_, dim); }

void Shape::insert(int axis, int64_t dim) {
  check(rank_ < kMaxRank, "shape", "more than {} axes", kMaxRank);
  std::copy_backward(dims_ + axis, dims_ + rank_, dims_ + rank_ + 1);
  dims_[axis] = dim;
  ++rank_;
}

void Shape::erase(int axis) {
  std::copy(dims_ + axis + 1, dims_ + rank_, dims_ + axis);
  --rank_;
}

std::string Shape::to_string() const {
  return fmt::format("[{}]", fmt::join(begin(), end(), ", "));
}

Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view op) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape result = longer;
  const int lead = longer.rank() - shorter.rank();
  for (int i = 0; i < shorter.rank(); ++i) {
    const int64_t x = longer[lead + i];
    const int64_t y = shorter[i];
    check(x == y || x == 1 || y == 1, op, "shapes {} and {} do not broadcast", a, b);
    result[lead + i] = x == 1 ? y : x;
  }
  return result;
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides = shape;
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    if (__builtin_mul_overflow(step, std::max<int64_t>(shape[i], 1), &step)) {
      // Next to a dimension of 0 the others may be anything: there is nothing to step over.
      std::fill_n(&strides[0], strides.rank(), 0);
      return strides;
    }
  }
  return strides;
}

}  // namespace heed
