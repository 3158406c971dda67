#include <algorithm>
#include <cmath>
#include <ostream>

#include "base/check.h"
#include "heed/tensor.h"

namespace heed {
namespace {

constexpr int64_t kSummaryThreshold = 1000;
constexpr int64_t kEdge = 3;

/// Elements as NumPy prints them: a common number of digits, exponents where the range asks for it.
class Format {
 public:
  Format(const std::vector<double>& shown, DType type) : type_(type) {
    double largest = 0;
    double smallest = INFINITY;
    for (const double x : shown) {
      if (std::isfinite(x) && x != 0) {
        largest = std::max(largest, std::abs(x));
        smallest = std::min(smallest, std::abs(x));
      }
    }
    scientific_ = largest >= 1e8 || (largest > 0 && (smallest < 1e-4 || largest / smallest > 1e3));
    for (const double x : shown) {
      digits_ = std::max(digits_, fraction_digits(x));
    }
    for (const double x : shown) {
      width_ = std::max(width_, text(x).size());
    }
  }

  std::string operator()(double x) const { return fmt::format("{:>{}}", text(x), width_); }

 private:
  static constexpr int kPrecision = 8;

  std::string number(double x) const {
    return scientific_ ? fmt::format("{:.{}e}", x, kPrecision)
                       : fmt::format("{:.{}f}", x, kPrecision);
  }

  /// How many of the eight digits after the point x needs (f32 needs no more than it can hold).
  size_t fraction_digits(double x) const {
    if (!std::isfinite(x)) {
      return 0;
    }
    for (int digits = 0; digits < kPrecision; ++digits) {
      const std::string s =
          scientific_ ? fmt::format("{:.{}e}", x, digits) : fmt::format("{:.{}f}", x, digits);
      const double back = std::stod(s);
      const bool exact =
          type_ == DType::f64 ? back == x : static_cast<float>(back) == static_cast<float>(x);
      if (exact) {
        return static_cast<size_t>(digits);
      }
    }
    return kPrecision;
  }

  std::string text(double x) const {
    if (type_ == DType::boolean) {
      return x != 0 ? "True" : "False";
    }
    if (!is_floating(type_)) {
      return fmt::format("{}", static_cast<int64_t>(x));
    }
    if (std::isnan(x)) {
      return "nan";
    }
    if (std::isinf(x)) {
      return x > 0 ? "inf" : "-inf";
    }
    if (scientific_) {
      return fmt::format("{:.{}e}", x, std::max<size_t>(digits_, 1));
    }
    // NumPy leaves trailing zeros out and fills up with spaces: " 1.   2.5".
    std::string s = fmt::format("{:#.{}f}", x, digits_);
    const size_t width = s.size();
    s.erase(s.find_last_not_of('0') + 1);
    return s + std::string(width - s.size(), ' ');
  }

  DType type_;
  bool scientific_ = false;
  size_t digits_ = 0;
  size_t width_ = 0;
};

/// Indices along an axis that are shown; -1 stands for the dots.
std::vector<int64_t> shown_indices(int64_t dim, bool summary) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < dim; ++i) {
    if (summary && dim > 2 * kEdge && i == kEdge) {
      indices.push_back(-1);
      i = dim - kEdge - 1;
    } else {
      indices.push_back(i);
    }
  }
  return indices;
}

struct Printer {
  const Tensor& tensor;
  bool summary;
  std::string out;

  void collect(int axis, int64_t offset, std::vector<double>& values) const {
    if (axis == tensor.rank()) {
      values.push_back(tensor.alias({}, {}, offset).item());
      return;
    }
    for (const int64_t i : shown_indices(tensor.shape()[axis], summary)) {
      if (i >= 0) {
        collect(axis + 1, offset + i * tensor.strides()[axis], values);
      }
    }
  }

  void print(int axis, int64_t offset, const Format& format) {
    if (axis == tensor.rank()) {
      out += format(tensor.alias({}, {}, offset).item());
      return;
    }
    const bool innermost = axis == tensor.rank() - 1;
    const std::string line(static_cast<size_t>(std::max(1, tensor.rank() - 1 - axis)), '\n');
    const std::string separator =
        innermost ? " " : line + std::string(static_cast<size_t>(axis + 1), ' ');
    out += '[';
    bool first = true;
    for (const int64_t i : shown_indices(tensor.shape()[axis], summary)) {
      out += first ? "" : separator;
      first = false;
      if (i < 0) {
        out += "...";
      } else {
        print(axis + 1, offset + i * tensor.strides()[axis], format);
      }
    }
    out += ']';
  }
};

}  // namespace

std::string Tensor::to_string() const {
  if (!defined()) {
    return "undefined";
  }
  if (is_quantized(dtype())) {
    return fmt::format("{}{}", name_of(dtype()), shape().to_string());
  }
  if (numel() == 0) {
    return "[]";
  }
  Printer printer{*this, numel() > kSummaryThreshold, {}};
  std::vector<double> values;
  printer.collect(0, 0, values);
  printer.print(0, 0, Format(values, dtype()));
  return printer.out;
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << tensor.to_string();
}

}  // namespace heed
