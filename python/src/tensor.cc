#include <nanobind/operators.h>
#include <nanobind/stl/pair.h>

#include <cmath>

#include "module.h"

using namespace nanobind::literals;

namespace heed_python {
namespace {

using heed::Comparison;

// Subscripts --------------------------------------------------------------------------------------

bool is_integer(nb::handle index) {
  return PyLong_Check(index.ptr()) && !PyBool_Check(index.ptr());
}

/// Rows `index` of one axis: x[:, [2, 0]]; a bool index takes the rows where it is true.
Tensor take_rows(const Tensor& x, int axis, const Tensor& index) {
  Tensor rows = index;
  if (index.dtype() == DType::boolean) {
    if (axis != 0 || index.rank() > x.rank()) {
      throw nb::index_error("a bool index must come first and stand for the first axes");
    }
    std::vector<int64_t> at;
    const std::vector<bool> chosen = [&] {
      const std::vector<double> each = index.to_doubles();
      return std::vector<bool>(each.begin(), each.end());
    }();
    for (size_t i = 0; i < chosen.size(); ++i) {
      if (chosen[i]) {
        at.push_back(static_cast<int64_t>(i));
      }
    }
    Shape flat{index.numel()};
    for (int i = index.rank(); i < x.rank(); ++i) {
      flat.push_back(x.size(i));
    }
    return heed::index_rows(heed::reshape(x, flat),
                            Tensor::from(at, {static_cast<int64_t>(at.size())}));
  }
  rows = heed::cast(rows, DType::i64);
  rows = heed::where(rows < 0.0, rows + static_cast<double>(x.size(axis)), rows);
  const Tensor front = axis == 0 ? x : heed::transpose(x, 0, axis);
  Tensor taken = heed::index_rows(front, heed::reshape(rows, {-1}));
  taken = axis == 0 ? taken : heed::transpose(taken, 0, axis);
  if (rows.rank() == 1) {
    return taken;
  }
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis) {
      shape.push_back(x.size(i));
      continue;
    }
    for (const int64_t size : rows.shape()) {
      shape.push_back(size);
    }
  }
  return heed::reshape(taken, shape);
}

Tensor subscript_slice(const Tensor& x, int axis, nb::handle index) {
  const auto part = [&](const char* name) -> std::optional<int64_t> {
    const nb::object value = index.attr(name);
    return value.is_none() ? std::nullopt : std::optional(nb::cast<int64_t>(value));
  };
  return x.slice(axis, part("start"), part("stop"), part("step").value_or(1));
}

/// x[1], x[:, 2:5], x[..., None], x[ids], x[mask].
Tensor subscript(const Tensor& x, nb::handle index) {
  if (is_integer(index)) {
    return x[nb::cast<int64_t>(index)];
  }
  nb::object indices = nb::borrow(index);
  if (!nb::isinstance<nb::tuple>(index)) {
    indices = nb::make_tuple(indices);
  }
  int taken = 0;
  for (const nb::handle each : indices) {
    taken += each.is_none() || each.ptr() == Py_Ellipsis ? 0 : 1;
  }
  Tensor result = x;
  int axis = 0;
  for (const nb::handle each : indices) {
    if (each.is_none()) {
      result = heed::unsqueeze(result, axis++);
    } else if (each.ptr() == Py_Ellipsis) {
      axis += std::max(0, x.rank() - taken);
    } else if (axis >= result.rank()) {
      throw nb::index_error(
          ("too many indices for a tensor of shape " + x.shape().to_string()).c_str());
    } else if (is_integer(each)) {
      const auto at = nb::cast<int64_t>(each);
      const int64_t size = result.size(axis);
      if (at < -size || at >= size) {  // Python's iteration ends with this exception
        throw nb::index_error(("index " + std::to_string(at) + " is out of range for axis " +
                               std::to_string(axis) + " of size " + std::to_string(size))
                                  .c_str());
      }
      result = heed::select(result, axis, at < 0 ? at + size : at);
    } else if (PySlice_Check(each.ptr())) {
      result = subscript_slice(result, axis++, each);
    } else {
      const Tensor rows = tensor_like(each);
      result = take_rows(result, axis, rows);
      axis += rows.dtype() == DType::boolean ? 1 : rows.rank();
    }
  }
  return result;
}

void assign(Tensor& self, nb::handle index, nb::handle value) {
  const Tensor from = tensor_like(value, self.dtype()).detach();
  const auto is_mask = [](nb::handle each) {
    Tensor* mask = nullptr;
    return nb::try_cast(each, mask) && mask != nullptr && mask->dtype() == DType::boolean;
  };
  if (is_mask(index)) {
    self.detach().copy_from(
        heed::where(nb::cast<Tensor>(index), heed::expand(from, self.shape()), self.detach()));
    return;
  }
  Tensor part = subscript(self.detach(), index);
  if (!part.shares_storage_with(self)) {
    throw nb::type_error("assignment takes integers, slices and bool masks as indices");
  }
  part.copy_from(heed::expand(from, part.shape()));
}

// Values ------------------------------------------------------------------------------------------

nb::object item(const Tensor& x) {
  const double value = x.item();
  return x.dtype() == DType::boolean ? nb::cast(value != 0)
         : heed::is_floating(x.dtype())
             ? nb::cast(value)
             : nb::cast(x.to(DType::i64).contiguous().data<int64_t>()[0]);
}

std::string describe(const Tensor& x) {
  std::string text = "tensor(" + x.to_string();
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) {
    text.insert(++at, "       ");
  }
  if (x.dtype() != DType::f32 && x.dtype() != DType::i64 && x.dtype() != DType::boolean) {
    text += ", dtype=" + std::string(heed::name_of(x.dtype()));
  }
  return text + (x.requires_grad() ? ", requires_grad=True)" : ")");
}

Tensor clone(const Tensor& x) { return heed::needs_grad({x}) ? heed::mul(x, 1.0) : x.clone(); }

nb::object dlpack(const Tensor& x, const nb::kwargs& options) {
  const bool copy =
      options.contains("copy") && nb::cast<nb::object>(options["copy"]).is(nb::bool_(true));
  return dlpack_from(copy ? x.clone() : x);
}

void backward(const Tensor& self, const std::optional<Tensor>& gradient, bool retain_graph) {
  interruptible([&](std::stop_token) {
    gradient ? heed::backward(self, *gradient, retain_graph) : heed::backward(self, retain_graph);
    return true;
  });
}

void bind_properties(nb::class_<Tensor>& tensor) {
  tensor
      .def_prop_ro(
          "shape", [](const Tensor& x) { return tuple_from(x.shape()); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def(
          "size", [](const Tensor& x) { return tuple_from(x.shape()); },
          nb::sig("def size(self) -> tuple[int, ...]"))
      .def("size", &Tensor::size, "dim"_a)
      .def(
          "stride", [](const Tensor& x) { return tuple_from(x.strides()); },
          nb::sig("def stride(self) -> tuple[int, ...]"))
      .def_prop_ro("ndim", &Tensor::rank)
      .def("dim", &Tensor::rank)
      .def("numel", &Tensor::numel)
      .def("element_size", [](const Tensor& x) { return heed::bytes_of(x.dtype(), 1); })
      .def_prop_ro("dtype", &Tensor::dtype)
      .def_prop_ro("device", [](const Tensor&) { return "cpu"; })
      .def(
          "data_ptr", [](const Tensor& x) { return reinterpret_cast<uintptr_t>(x.raw()); },
          "Address of the first element.")
      .def("is_contiguous", &Tensor::is_contiguous)
      .def_prop_rw("requires_grad", &Tensor::requires_grad,
                   [](Tensor& x, bool wanted) { x.set_requires_grad(wanted); })
      .def(
          "requires_grad_", [](Tensor& x, bool wanted) { return x.set_requires_grad(wanted); },
          "wanted"_a = true)
      .def_prop_ro("is_leaf", &Tensor::is_leaf)
      .def_prop_rw(
          "grad", [](const Tensor& x) { return optional_tensor(x.grad()); },
          [](Tensor& x, const std::optional<Tensor>& gradient) {
            x.set_grad(or_undefined(gradient));
          },
          nb::arg("gradient").none(), nb::for_getter(nb::sig("def grad(self) -> Tensor | None")),
          nb::for_setter(nb::sig("def grad(self, gradient: Tensor | None) -> None")),
          "The gradient that backward() left here, or None.")
      .def("backward", &backward, "gradient"_a.none() = nb::none(), "retain_graph"_a = false,
           "Computes the gradient of this scalar (or of `gradient` times this tensor) with respect "
           "to every leaf it depends on and adds it to their `grad`.");
}

void bind_values(nb::class_<Tensor>& tensor) {
  tensor.def("item", &item, nb::sig("def item(self) -> float"), "The only element.")
      .def(
          "tolist", [](const Tensor& x) { return numpy_from(x).attr("tolist")(); },
          nb::sig("def tolist(self) -> typing.Any"))
      .def("numpy", &numpy_from, nb::sig("def numpy(self) -> numpy.typing.NDArray[typing.Any]"),
           "The same memory as an array of NumPy (bf16 and quantised types are converted to f32).")
      .def(
          "__array__",
          [](const Tensor& x, nb::handle dtype, nb::handle copy) -> nb::object {
            nb::object array = numpy_from(x);
            if (!dtype.is_none()) {
              array = array.attr("astype")(dtype);
            }
            return !copy.is_none() && nb::cast<bool>(copy) ? array.attr("copy")() : array;
          },
          "dtype"_a.none() = nb::none(), "copy"_a.none() = nb::none(),
          nb::sig("def __array__(self, dtype: typing.Any = None, copy: bool | None = None) -> "
                  "numpy.typing.NDArray[typing.Any]"))
      .def("__dlpack__", &dlpack, nb::sig("def __dlpack__(self, **kwargs: typing.Any) -> object"))
      .def("__dlpack_device__", [](const Tensor&) { return std::pair(nb::device::cpu::value, 0); })
      .def("__float__", &Tensor::item)
      .def("__int__", [](const Tensor& x) { return static_cast<int64_t>(x.item()); })
      .def("__index__",
           [](const Tensor& x) {
             if (heed::is_floating(x.dtype())) {
               throw nb::type_error("a tensor of real numbers is no index");
             }
             return static_cast<int64_t>(x.item());
           })
      .def("__bool__", [](const Tensor& x) { return x.item() != 0; })
      .def("__len__",
           [](const Tensor& x) {
             if (x.rank() == 0) {
               throw nb::type_error("a tensor of rank 0 has no length");
             }
             return x.size(0);
           })
      .def("__getitem__", &subscript,
           nb::sig("def __getitem__(self, index: typing.Any, /) -> Tensor"))
      .def("__setitem__", &assign,
           nb::sig("def __setitem__(self, index: typing.Any, value: typing.Any, /) -> None"))
      .def(
          "__iter__",
          [](const Tensor& x) {
            nb::list rows;
            for (int64_t i = 0; i < x.size(0); ++i) {
              rows.append(x[i]);
            }
            return nb::iter(rows);
          },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[Tensor]"))
      .def("__hash__", [](const Tensor& x) { return reinterpret_cast<intptr_t>(x.impl()) >> 4; })
      .def("__repr__", &describe)
      .def(
          "__format__",
          [](const Tensor& x, const nb::str& format) {
            nb::object value = x.rank() == 0 ? item(x) : nb::cast(describe(x));
            return value.attr("__format__")(format);
          },
          nb::sig("def __format__(self, format: str, /) -> str"))
      .def("__reduce__", [](nb::handle self) {
        const auto x = nb::cast<Tensor>(self);
        return nb::make_tuple(
            nb::module_::import_("heed").attr("_restore_tensor"),
            nb::make_tuple(numpy_from(x), x.dtype(), x.requires_grad() && x.is_leaf()));
      });
}

void bind_changes(nb::class_<Tensor>& tensor) {
  tensor.def("detach", &Tensor::detach, "The same memory without history.")
      .def("clone", &clone)
      .def("contiguous", [](const Tensor& x) { return heed::contiguous(x); })
      .def("cpu", [](const Tensor& x) { return x; })
      .def(
          "to", [](const Tensor& x, DType type) { return heed::cast(x, type); }, "dtype"_a)
      .def(
          "to",
          [](const Tensor& x, const std::string& device) {
            if (device != "cpu") {
              throw nb::value_error(("heed runs on the CPU; there is no '" + device + "'").c_str());
            }
            return x;
          },
          "device"_a)
      .def("float", [](const Tensor& x) { return heed::cast(x, DType::f32); })
      .def("double", [](const Tensor& x) { return heed::cast(x, DType::f64); })
      .def("half", [](const Tensor& x) { return heed::cast(x, DType::f16); })
      .def("bfloat16", [](const Tensor& x) { return heed::cast(x, DType::bf16); })
      .def("long", [](const Tensor& x) { return heed::cast(x, DType::i64); })
      .def("int", [](const Tensor& x) { return heed::cast(x, DType::i32); })
      .def("bool", [](const Tensor& x) { return x != 0.0; })
      .def(
          "copy_",
          [](Tensor& x, const Tensor& source) {
            x.detach().copy_from(heed::expand(source.detach(), x.shape()));
            return x;
          },
          "source"_a)
      .def(
          "fill_",
          [](Tensor& x, double value) {
            x.fill(value);
            return x;
          },
          "value"_a)
      .def("zero_",
           [](Tensor& x) {
             x.fill(0);
             return x;
           })
      .def(
          "normal_",
          [](Tensor& x, double mean, double std) {
            x.detach().copy_from(heed::randn(x.shape()) * std + mean);
            return x;
          },
          "mean"_a = 0.0, "std"_a = 1.0)
      .def(
          "uniform_",
          [](Tensor& x, double low, double high) {
            x.detach().copy_from(heed::rand(x.shape()) * (high - low) + low);
            return x;
          },
          "low"_a = 0.0, "high"_a = 1.0);
}

}  // namespace

void bind_tensor(nb::module_& m) {
  nb::enum_<DType>(m, "dtype", "Type of a tensor's elements.")
      .value("float32", DType::f32)
      .value("float64", DType::f64)
      .value("float16", DType::f16)
      .value("bfloat16", DType::bf16)
      .value("int32", DType::i32)
      .value("int64", DType::i64)
      .value("uint8", DType::u8)
      .value("bool_", DType::boolean)
      .value("q8_0", DType::q8_0)
      .value("q4_0", DType::q4_0);
  nb::class_<Tensor> tensor(
      m, "Tensor", nb::is_weak_referenceable(),
      "A strided array with its history. Shares memory with NumPy and PyTorch in both directions.");
  tensor.def(nb::init<const Tensor&>(), "data"_a);
  bind_properties(tensor);
  bind_values(tensor);
  bind_changes(tensor);
  m.def(
      "tensor",
      [](nb::handle data, std::optional<DType> dtype, bool requires_grad) {
        return Tensor(tensor_like(data, dtype).clone()).set_requires_grad(requires_grad);
      },
      "data"_a, "dtype"_a.none() = nb::none(), "requires_grad"_a = false,
      nb::sig("def tensor(data: typing.Any, dtype: dtype | None = None, requires_grad: bool = "
              "False) -> Tensor"),
      "A copy of numbers, nested lists, an array or a tensor.");
  m.def(
      "as_tensor",
      [](nb::handle data, std::optional<DType> dtype) { return tensor_like(data, dtype); },
      "data"_a, "dtype"_a.none() = nb::none(),
      nb::sig("def as_tensor(data: typing.Any, dtype: dtype | None = None) -> Tensor"),
      "The same as a tensor, sharing memory where it is an array.");
  m.def(
      "from_numpy",
      [](const nb::ndarray<nb::device::cpu>& array) { return tensor_from(Array(array)); },
      "array"_a,
      "A tensor over the memory of a writable array: nothing is copied, and writing to one changes "
      "the other.");
  m.def(
      "from_dlpack", [](const Array& array) { return tensor_from(array); }, "array"_a,
      "A tensor over the memory of whatever speaks DLPack, such as a tensor of PyTorch.");
}

}  // namespace heed_python
