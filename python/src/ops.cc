#include <nanobind/stl/variant.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "module.h"

using namespace nanobind::literals;

namespace heed_python {
namespace {

using heed::Comparison;

// Operators ---------------------------------------------------------------------------------------

using Binary = Tensor (*)(const Tensor&, const Tensor&);

template <Binary op>
Tensor binary(const Tensor& a, const Tensor& b) {
  const Release release(std::max(a.numel(), b.numel()));
  if (a.dtype() == b.dtype()) {
    return op(a, b);
  }
  const auto [x, y] = promoted(a, b);
  return op(x, y);
}

Tensor divide(const Tensor& a, const Tensor& b) {
  return heed::is_floating(a.dtype())
             ? heed::div(a, b)
             : heed::div(heed::cast(a, DType::f32), heed::cast(b, DType::f32));
}

/// An integer tensor becomes real where the number is no whole one, or where it is divided.
Tensor real_for(const Tensor& x, double number, bool always = false) {
  return heed::is_floating(x.dtype()) ||
                 (!always && std::floor(number) == number && x.dtype() != DType::boolean)
             ? x
             : heed::cast(x, DType::f32);
}

template <class Fn>
void with_number(nb::class_<Tensor>& tensor, const char* name, const Fn& fn) {
  tensor.def(
      name,
      [fn](const Tensor& a, double b) {
        const Release release(a.numel());
        return fn(a, b);
      },
      "other"_a, nb::is_operator());
}

/// t op Tensor, t op number, t op array, and reflected.
template <Binary op, class Number, class Reflected>
void arithmetic(nb::class_<Tensor>& tensor, const char* name, const char* reflected,
                const Number& number, const Reflected& other) {
  tensor.def(name, &binary<op>, "other"_a, nb::is_operator());
  with_number(tensor, name, number);
  tensor.def(
      name, [](const Tensor& a, const Array& b) { return binary<op>(a, tensor_from(b)); },
      "other"_a, nb::is_operator());
  with_number(tensor, reflected, other);
  tensor.def(
      reflected, [](const Tensor& a, const Array& b) { return binary<op>(tensor_from(b), a); },
      "other"_a, nb::is_operator());
}

template <Comparison op>
void comparison(nb::class_<Tensor>& tensor, const char* name) {
  tensor.def(
      name,
      [](const Tensor& a, const Tensor& b) {
        const auto [x, y] = promoted(a, b);
        return heed::compare(op, x, y);
      },
      "other"_a, nb::is_operator());
  tensor.def(
      name, [](const Tensor& a, double b) { return heed::compare(op, a, b); }, "other"_a,
      nb::is_operator());
  tensor.def(
      name,
      [](const Tensor& a, const Array& b) {
        const auto [x, y] = promoted(a, tensor_from(b));
        return heed::compare(op, x, y);
      },
      "other"_a, nb::is_operator());
}

void bind_operators(nb::class_<Tensor>& tensor) {
  arithmetic<heed::add>(
      tensor, "__add__", "__radd__", [](const Tensor& a, double b) { return real_for(a, b) + b; },
      [](const Tensor& a, double b) { return real_for(a, b) + b; });
  arithmetic<heed::sub>(
      tensor, "__sub__", "__rsub__", [](const Tensor& a, double b) { return real_for(a, b) - b; },
      [](const Tensor& a, double b) { return heed::neg(real_for(a, b)) + b; });
  arithmetic<heed::mul>(
      tensor, "__mul__", "__rmul__", [](const Tensor& a, double b) { return real_for(a, b) * b; },
      [](const Tensor& a, double b) { return real_for(a, b) * b; });
  arithmetic<divide>(
      tensor, "__truediv__", "__rtruediv__",
      [](const Tensor& a, double b) { return real_for(a, b, true) / b; },
      [](const Tensor& a, double b) { return b / real_for(a, b, true); });
  comparison<Comparison::equal>(tensor, "__eq__");
  comparison<Comparison::not_equal>(tensor, "__ne__");
  comparison<Comparison::less>(tensor, "__lt__");
  comparison<Comparison::less_equal>(tensor, "__le__");
  comparison<Comparison::greater>(tensor, "__gt__");
  comparison<Comparison::greater_equal>(tensor, "__ge__");
  tensor.def("__neg__", [](const Tensor& x) { return heed::neg(x); })
      .def(
          "__pow__", [](const Tensor& x, double e) { return heed::pow(real_for(x, e, true), e); },
          nb::is_operator())
      .def(
          "__and__", [](const Tensor& a, const Tensor& b) { return a & b; }, nb::is_operator())
      .def(
          "__or__", [](const Tensor& a, const Tensor& b) { return a | b; }, nb::is_operator())
      .def("__invert__", [](const Tensor& x) { return ~x; });
}

// Views and structure -----------------------------------------------------------------------------

void bind_views(nb::module_& m, nb::class_<Tensor>& tensor) {
  const auto reshape = [](const Tensor& x, const nb::args& shape) {
    return heed::reshape(x, shape_from(shape));
  };
  for (const char* name : {"reshape", "view"}) {
    tensor.def(name, reshape,
               nb::sig(("def " + std::string(name) +
                        "(self, *shape: int | collections.abc.Sequence[int]) -> Tensor")
                           .c_str()));
  }
  m.def(
      "reshape",
      [](const Tensor& x, const std::vector<int64_t>& shape) {
        return heed::reshape(x, shape_from(shape));
      },
      "input"_a, "shape"_a);
  both(m, tensor, "transpose", &heed::transpose, "dim0"_a, "dim1"_a);
  tensor.def("t", [](const Tensor& x) { return heed::transpose(x); });
  tensor.def_prop_ro("T", [](const Tensor& x) { return heed::transpose(x); });
  tensor.def_prop_ro("mT", [](const Tensor& x) { return heed::transpose(x); });
  tensor.def(
      "permute",
      [](const Tensor& x, const nb::args& order) { return heed::permute(x, shape_from(order)); },
      nb::sig("def permute(self, *dims: int | collections.abc.Sequence[int]) -> Tensor"));
  const auto expand = [](const Tensor& x, const nb::args& shape) {
    Shape wanted = shape_from(shape);
    for (int i = 0; i < wanted.rank(); ++i) {
      const int from = i - (wanted.rank() - x.rank());
      wanted[i] = wanted[i] == -1 && from >= 0 ? x.size(from) : wanted[i];
    }
    return heed::expand(x, wanted);
  };
  tensor.def("expand", expand,
             nb::sig("def expand(self, *shape: int | collections.abc.Sequence[int]) -> Tensor"));
  tensor.def(
      "repeat",
      [](const Tensor& x, const nb::args& repeats) {
        Tensor result = x;
        const Shape times = shape_from(repeats);
        while (result.rank() < times.rank()) {
          result = heed::unsqueeze(result, 0);
        }
        for (int i = 0; i < times.rank(); ++i) {
          result = heed::concat(std::vector<Tensor>(static_cast<size_t>(times[i]), result), i);
        }
        return result;
      },
      nb::sig("def repeat(self, *repeats: int | collections.abc.Sequence[int]) -> Tensor"));
  both(m, tensor, "squeeze", &heed::squeeze, "dim"_a);
  both(m, tensor, "unsqueeze", &heed::unsqueeze, "dim"_a);
  const auto flatten = [](const Tensor& x, int start, int end) {
    const int first = x.shape().axis(start, "flatten"), last = x.shape().axis(end, "flatten");
    Shape shape;
    for (int i = 0; i < x.rank(); ++i) {
      if (i > first && i <= last) {
        shape[shape.rank() - 1] *= x.size(i);
      } else {
        shape.push_back(x.size(i));
      }
    }
    return heed::reshape(x, shape);
  };
  both(m, tensor, "flatten", flatten, "start_dim"_a = 0, "end_dim"_a = -1);
  for (const char* name : {"cat", "concat"}) {
    m.def(
        name, [](const std::vector<Tensor>& parts, int dim) { return heed::concat(parts, dim); },
        "tensors"_a, "dim"_a = 0);
  }
  m.def("stack", &heed::stack, "tensors"_a, "dim"_a = 0);
  const auto split = [](const Tensor& x, int64_t size, int dim) {
    return heed::chunks(x, size, dim);
  };
  const auto split_sizes = [](const Tensor& x, const std::vector<int64_t>& sizes, int dim) {
    return heed::split(x, sizes, dim);
  };
  both(m, tensor, "split", split, "split_size"_a, "dim"_a = 0);
  both(m, tensor, "split", split_sizes, "split_sizes"_a, "dim"_a = 0);
  const auto chunk = [](const Tensor& x, int64_t count, int dim) {
    const int64_t size = x.size(dim);
    return heed::chunks(x, std::max<int64_t>(1, (size + count - 1) / count), dim);
  };
  both(m, tensor, "chunk", chunk, "chunks"_a, "dim"_a = 0);
  both(
      m, tensor, "gather",
      [](const Tensor& x, int dim, const Tensor& index) { return heed::gather(x, dim, index); },
      "dim"_a, "index"_a);
  both(
      m, tensor, "masked_fill",
      [](const Tensor& x, const Tensor& mask, double value) {
        return heed::masked_fill(x, mask.dtype() == DType::boolean ? mask : mask != 0.0, value);
      },
      "mask"_a, "value"_a);
  m.def(
      "where",
      [](const Tensor& condition, nb::handle a, nb::handle b) {
        const auto [x, y] = promoted(tensor_like(a), tensor_like(b));
        return heed::where(condition, x, y);
      },
      "condition"_a, "input"_a, "other"_a,
      nb::sig("def where(condition: Tensor, input: typing.Any, other: typing.Any) -> Tensor"));
}

// Elementwise and products ------------------------------------------------------------------------

using Unary = Tensor (*)(const Tensor&);

void bind_elementwise(nb::module_& m, nb::class_<Tensor>& tensor) {
  const std::pair<const char*, Unary> functions[] = {
      {"exp", heed::exp},   {"log", heed::log}, {"sqrt", heed::sqrt}, {"tanh", heed::tanh},
      {"abs", heed::abs},   {"neg", heed::neg}, {"relu", heed::relu}, {"sigmoid", heed::sigmoid},
      {"silu", heed::silu}, {"sin", heed::sin}, {"cos", heed::cos}};
  for (const auto& [name, function] : functions) {
    both(m, tensor, name, [function = function](const Tensor& x) {
      const Release release(x.numel());
      return function(x);
    });
  }
  m.def(
      "gelu",
      [](const Tensor& x, const std::string& approximate) {
        const Release release(x.numel());
        return approximate == "tanh" ? heed::gelu_tanh(x) : heed::gelu(x);
      },
      "input"_a, "approximate"_a = "none");
  both(m, tensor, "rsqrt", [](const Tensor& x) { return heed::pow(x, -0.5); });
  both(
      m, tensor, "pow", [](const Tensor& x, double e) { return heed::pow(x, e); }, "exponent"_a);
  both(m, tensor, "clamp", &heed::clamp, "min"_a.none() = nb::none(), "max"_a.none() = nb::none());
  m.def("maximum", &binary<heed::maximum>, "input"_a, "other"_a);
  m.def("minimum", &binary<heed::minimum>, "input"_a, "other"_a);
  both(
      m, tensor, "softmax",
      [](const Tensor& x, int dim) {
        const Release release(x.numel());
        return heed::softmax(x, dim);
      },
      "dim"_a);
  both(
      m, tensor, "log_softmax",
      [](const Tensor& x, int dim) {
        const Release release(x.numel());
        return heed::log_softmax(x, dim);
      },
      "dim"_a);
  const auto matmul = [](const Tensor& a, const Tensor& b) {
    return released(a.numel() * b.size(-1) / 64, [&] {
      if (a.rank() == 1 || b.rank() == 1) {  // NumPy's rules for vectors
        const Tensor x = a.rank() == 1 ? heed::unsqueeze(a, 0) : a;
        const Tensor y = b.rank() == 1 ? heed::unsqueeze(b, 1) : b;
        Tensor product = heed::matmul(x, y);
        product = b.rank() == 1 ? heed::squeeze(product, -1) : product;
        return a.rank() == 1 ? heed::squeeze(product, b.rank() == 1 ? -1 : -2) : product;
      }
      return heed::matmul(a, b);
    });
  };
  both(m, tensor, "matmul", matmul, "other"_a);
  m.def("bmm", matmul, "input"_a, "other"_a);
  tensor.def("__matmul__", matmul, "other"_a, nb::is_operator());
  tensor.def(
      "__matmul__", [matmul](const Tensor& a, const Array& b) { return matmul(a, tensor_from(b)); },
      "other"_a, nb::is_operator());
}

}  // namespace

void bind_ops(nb::module_& m) {
  auto tensor = nb::borrow<nb::class_<Tensor>>(nb::type<Tensor>());
  bind_operators(tensor);
  bind_views(m, tensor);
  bind_elementwise(m, tensor);
}

}  // namespace heed_python
