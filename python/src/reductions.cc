#include <nanobind/stl/variant.h>

#include <algorithm>
#include <variant>

#include "module.h"

using namespace nanobind::literals;

namespace heed_python {
namespace {

using Axes = std::vector<int64_t>;

/// Over all elements, one axis or several.
template <class One>
Tensor reduce(const Tensor& x, const std::optional<std::variant<int, Axes>>& dim, bool keep,
              const One& one) {
  const Release release(x.numel());
  if (!dim) {
    return one(heed::reshape(x, {-1}), 0, false);
  }
  if (const int* axis = std::get_if<int>(&*dim)) {
    return one(x, *axis, keep);
  }
  Axes axes = std::get<Axes>(*dim);
  for (int64_t& axis : axes) {
    axis = x.shape().axis(static_cast<int>(axis), "reduce");
  }
  std::sort(axes.rbegin(), axes.rend());
  Tensor result = x;
  for (const int64_t axis : axes) {
    result = one(result, static_cast<int>(axis), keep);
  }
  return result;
}
using Dim = std::optional<std::variant<int, Axes>>;

Tensor sum(const Tensor& x, const Dim& dim, bool keepdim) {
  const auto one = [](const Tensor& v, int axis, bool keep) { return heed::sum(v, axis, keep); };
  if (heed::is_floating(x.dtype())) {
    return reduce(x, dim, keepdim, one);
  }
  return heed::cast(reduce(heed::cast(x, DType::f64), dim, keepdim, one), DType::i64);
}
Tensor mean(const Tensor& x, const Dim& dim, bool keepdim) {
  return reduce(x, dim, keepdim,
                [](const Tensor& v, int axis, bool keep) { return heed::mean(v, axis, keep); });
}
Tensor variance(const Tensor& x, const Dim& dim, bool unbiased, bool keepdim) {
  Tensor centred = x - (dim ? mean(x, dim, true) : mean(x, dim, false));
  const Tensor squares = sum(centred * centred, dim, keepdim);
  const double count = static_cast<double>(x.numel()) / static_cast<double>(squares.numel());
  return squares / (unbiased ? count - 1 : count);
}

/// The largest of all elements; or of an axis, with the indices.
template <bool largest>
nb::object extreme(const Tensor& x, std::optional<int> dim, bool keepdim) {
  // Whole numbers are compared as f64, which holds those below 2^53.
  const Tensor real = heed::is_floating(x.dtype()) ? x : heed::cast(x, DType::f64);
  const Tensor flat = dim ? real : heed::reshape(real, {-1});
  const int axis = dim.value_or(0);
  const auto values = largest ? heed::max : heed::min;
  const auto indices = largest ? heed::argmax : heed::argmin;
  if (!dim) {
    return nb::cast(heed::cast(values(flat, axis, false), x.dtype()));
  }
  const Tensor at = indices(flat, axis);
  return nb::cast(heed::Ordered{heed::cast(values(flat, axis, keepdim), x.dtype()),
                                keepdim ? heed::unsqueeze(at, axis) : at});
}

}  // namespace

void bind_reductions(nb::module_& m) {
  auto tensor = nb::borrow<nb::class_<Tensor>>(nb::type<Tensor>());
  nb::class_<heed::Ordered>(m, "Ordered", "Values along an axis and where they were.")
      .def_ro("values", &heed::Ordered::values)
      .def_ro("indices", &heed::Ordered::indices)
      .def(
          "__iter__",
          [](const heed::Ordered& self) {
            return nb::iter(nb::make_tuple(self.values, self.indices));
          },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[Tensor]"))
      .def("__getitem__", [](const heed::Ordered& self, int index) {
        return index == 0 ? self.values : index == 1 ? self.indices : throw nb::index_error();
      });
  both(m, tensor, "sum", &sum, "dim"_a.none() = nb::none(), "keepdim"_a = false);
  both(m, tensor, "mean", &mean, "dim"_a.none() = nb::none(), "keepdim"_a = false);
  both(m, tensor, "var", &variance, "dim"_a.none() = nb::none(), "unbiased"_a = true,
       "keepdim"_a = false);
  const auto stddev = [](const Tensor& x, const Dim& dim, bool unbiased, bool keepdim) {
    return heed::sqrt(variance(x, dim, unbiased, keepdim));
  };
  both(m, tensor, "std", stddev, "dim"_a.none() = nb::none(), "unbiased"_a = true,
       "keepdim"_a = false);
  // With dim: values and indices, as PyTorch returns them; without: the one value.
  const auto all_largest = [](const Tensor& x) {
    return nb::cast<Tensor>(extreme<true>(x, {}, false));
  };
  const auto all_smallest = [](const Tensor& x) {
    return nb::cast<Tensor>(extreme<false>(x, {}, false));
  };
  const auto largest = [](const Tensor& x, int dim, bool keepdim) {
    return nb::cast<heed::Ordered>(extreme<true>(x, dim, keepdim));
  };
  const auto smallest = [](const Tensor& x, int dim, bool keepdim) {
    return nb::cast<heed::Ordered>(extreme<false>(x, dim, keepdim));
  };
  both(m, tensor, "max", all_largest);
  both(m, tensor, "max", largest, "dim"_a, "keepdim"_a = false);
  both(m, tensor, "min", all_smallest);
  both(m, tensor, "min", smallest, "dim"_a, "keepdim"_a = false);
  const auto argmax = [](const Tensor& x, std::optional<int> dim, bool keepdim) {
    const Tensor at = heed::argmax(dim ? x : heed::reshape(x, {-1}), dim.value_or(0));
    return keepdim && dim ? heed::unsqueeze(at, *dim) : at;
  };
  const auto argmin = [](const Tensor& x, std::optional<int> dim) {
    return heed::argmin(dim ? x : heed::reshape(x, {-1}), dim.value_or(0));
  };
  both(m, tensor, "argmax", argmax, "dim"_a.none() = nb::none(), "keepdim"_a = false);
  both(m, tensor, "argmin", argmin, "dim"_a.none() = nb::none());
  both(m, tensor, "topk", &heed::topk, "k"_a, "dim"_a = -1, "largest"_a = true);
  both(m, tensor, "sort", &heed::sort, "dim"_a = -1, "descending"_a = false);
  both(m, tensor, "all", [](const Tensor& x) { return heed::all(x); });
  both(m, tensor, "any", [](const Tensor& x) { return heed::any(x); });
  both(m, tensor, "count_nonzero", &heed::count_nonzero);
}

}  // namespace heed_python
