// What the parts of the Python module share. The module is a thin layer over the public headers: it
// turns arrays into tensors and results into Python's own types, and decides nothing.
#pragma once

#include <heed/heed.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace heed_python {

namespace nb = nanobind;
using heed::DType;
using heed::Shape;
using heed::Tensor;

/// Any array of the CPU: NumPy's, PyTorch's, whatever speaks DLPack or the buffer protocol.
using Array = nb::ndarray<nb::ro, nb::device::cpu>;

/// Releases the GIL where `elements` are enough to be worth it: below, an op takes microseconds.
class Release {
 public:
  static constexpr int64_t kWorth = int64_t{1} << 14;
  explicit Release(int64_t elements = kWorth) {
    if (elements >= kWorth) {
      release_.emplace();
    }
  }

 private:
  std::optional<nb::gil_scoped_release> release_;
};

/// Lets Ctrl-C stop a long call of the main thread: while one lives, SIGINT requests a stop. The
/// destructor leaves Python's own handler in place, which has seen the signal, too.
class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  std::stop_token token() const { return source_.get_token(); }
  bool interrupted() const { return source_.stop_requested(); }

 private:
  std::stop_source source_;
  bool active_ = false;
};

/// How a call ends when Ctrl-C comes.
enum class Ends {
  at_once,    ///< in the middle of an op
  by_itself,  ///< when the work looks at its stop token: it has something to save
};

/// Raises KeyboardInterrupt.
[[noreturn]] inline void raise_interrupted() {
  PyErr_SetNone(PyExc_KeyboardInterrupt);
  throw nb::python_error();
}

/// Calls work(stop) without the GIL; raises KeyboardInterrupt where Ctrl-C came.
template <Ends ends = Ends::at_once, class Work>
auto interruptible(Work&& work) {
  const Interruptible interrupt;
  std::optional<decltype(work(interrupt.token()))> result;
  try {
    const nb::gil_scoped_release release;
    const heed::StopScope scope(ends == Ends::at_once ? interrupt.token() : std::stop_token());
    result.emplace(work(interrupt.token()));
  } catch (...) {
    if (!interrupt.interrupted()) {
      throw;
    }
  }
  if (PyErr_CheckSignals() != 0) {
    throw nb::python_error();
  }
  if (!result) {  // stopped, and the program's own handler of SIGINT raised nothing
    raise_interrupted();
  }
  return std::move(*result);
}

/// Calls work() as an op of about `elements` elements: with the GIL where it takes microseconds,
/// without it where it takes longer, and so that Ctrl-C stops it where a person would notice.
template <class Work>
auto released(int64_t elements, Work&& work) {
  constexpr int64_t kLong = int64_t{1} << 25;
  if (elements >= kLong) {
    return interruptible([&](std::stop_token) { return work(); });
  }
  const Release release(elements);
  return work();
}

/// A function of the module and a method of Tensor under one name.
template <class Fn, class... Extra>
void both(nb::module_& m, nb::class_<Tensor>& tensor, const char* name, const Fn& fn,
          const Extra&... extra) {
  m.def(name, fn, nb::arg("input"), extra...);
  tensor.def(name, fn, extra...);
}

/// A tensor over the array's own memory, which it keeps alive.
Tensor tensor_from(const Array& array);
/// Tensor, array, number or nested lists as a tensor; nothing is copied where it is an array.
Tensor tensor_like(nb::handle value, std::optional<DType> type = {});
/// The tensor's memory as an array of NumPy, which keeps it alive; bf16 becomes f32.
nb::object numpy_from(const Tensor& tensor);
/// The same as a capsule of DLPack; bf16 stays what it is.
nb::object dlpack_from(const Tensor& tensor);
/// A tensor, or None where it is undefined.
nb::object optional_tensor(const Tensor& tensor);
inline Tensor or_undefined(const std::optional<Tensor>& tensor) {
  return tensor.value_or(Tensor());
}

Shape shape_from(const std::vector<int64_t>& sizes);
/// f(2, 3) and f((2, 3)).
Shape shape_from(const nb::args& sizes);
nb::tuple tuple_from(const Shape& shape);
/// A str; models may write bytes that are no UTF-8, for which U+FFFD stands.
nb::str python_text(std::string_view text);
/// Python's objects from JSON and back.
nb::object python_from(const std::string& json);
std::string json_from(nb::handle value);

// The two as one type: the wider floating one, else the wider integer.
std::pair<Tensor, Tensor> promoted(const Tensor& a, const Tensor& b);

/// A tokenizer and where it came from, by which it pickles.
struct PyTokenizer {
  heed::Tokenizer tokenizer;
  std::string path;
};

/// A model with its tokenizer.
struct PyModel {
  heed::LoadedModel loaded;
};

void bind_tensor(nb::module_& m);
void bind_ops(nb::module_& m);
void bind_reductions(nb::module_& m);
void bind_functional(nb::module_& m);
void bind_nn(nb::module_& m);
void bind_data(nb::module_& m);
void bind_tokenizer(nb::module_& m);
void bind_models(nb::module_& m);
void bind_pipelines(nb::module_& m);
void bind_pictures(nb::module_& m);
void bind_retrieval(nb::module_& m);

}  // namespace heed_python
