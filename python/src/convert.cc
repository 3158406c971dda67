#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "module.h"

namespace heed_python {
namespace {

using Code = nb::dlpack::dtype_code;

std::optional<DType> type_of(const nb::dlpack::dtype& type) {
  const auto code = static_cast<Code>(type.code);
  if (type.lanes != 1) {
    return {};
  }
  if (code == Code::Float) {
    return type.bits == 32   ? std::optional(DType::f32)
           : type.bits == 64 ? std::optional(DType::f64)
           : type.bits == 16 ? std::optional(DType::f16)
                             : std::nullopt;
  }
  if (code == Code::Bfloat && type.bits == 16) {
    return DType::bf16;
  }
  if (code == Code::Int) {
    return type.bits == 64   ? std::optional(DType::i64)
           : type.bits == 32 ? std::optional(DType::i32)
                             : std::nullopt;
  }
  if (code == Code::UInt && type.bits == 8) {
    return DType::u8;
  }
  return code == Code::Bool ? std::optional(DType::boolean) : std::nullopt;
}

bool usable_strides(const Array& array) {
  for (size_t i = 0; i < array.ndim(); ++i) {
    if (array.stride(i) < 0) {
      return false;
    }
  }
  return array.ndim() <= static_cast<size_t>(Shape::kMaxRank);
}

// Ctrl-C while a call of the main thread runs. A signal handler may do little more than post a
// semaphore; a thread of its own waits for it and requests the stop.
struct Watcher {
  Watcher() {
    sem_init(&posted, 0, 0);
    std::thread([this] {
      while (true) {
        if (sem_wait(&posted) == 0) {
          const std::lock_guard lock(mutex);
          if (source) {
            source->request_stop();
          }
        }
      }
    }).detach();
  }
  sem_t posted;
  std::mutex mutex;
  std::optional<std::stop_source> source;
  const pid_t process = getpid();
};

std::atomic<Watcher*> g_watcher{nullptr};
struct sigaction g_before {};

/// The thread does not survive a fork: a child has a watcher of its own.
Watcher& watcher() {
  Watcher* current = g_watcher.load();
  if (current == nullptr || current->process != getpid()) {
    current = new Watcher;  // lives as long as the process
    g_watcher = current;
  }
  return *current;
}

void on_interrupt(int signal, siginfo_t* info, void* context) {
  sem_post(&g_watcher.load()->posted);
  if ((g_before.sa_flags & SA_SIGINFO) != 0) {
    g_before.sa_sigaction(signal, info, context);
  } else if (g_before.sa_handler != SIG_DFL && g_before.sa_handler != SIG_IGN) {
    g_before.sa_handler(signal);
  }
}

/// Python raises KeyboardInterrupt in the main thread alone. Asked of the system, because a static
/// variable that imports `threading` would wait for the GIL inside its guard; right in a forked
/// child, too.
bool on_main_thread() { return gettid() == getpid(); }

}  // namespace

Interruptible::Interruptible() {
  if (!on_main_thread()) {
    return;
  }
  Watcher& here = watcher();
  {
    const std::lock_guard lock(here.mutex);
    if (here.source) {
      return;  // a call inside another one: the outer one's stop ends both
    }
    here.source = source_;
  }
  active_ = true;
  struct sigaction action {};
  action.sa_sigaction = on_interrupt;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &g_before);
}

Interruptible::~Interruptible() {
  if (active_) {
    sigaction(SIGINT, &g_before, nullptr);
    Watcher& here = watcher();
    const std::lock_guard lock(here.mutex);
    here.source.reset();
  }
}

Tensor tensor_from(const Array& array) {
  const std::optional<DType> type = type_of(array.dtype());
  if (!type || !usable_strides(array)) {
    // Types and orders that a tensor cannot share become one that it can, as NumPy converts them.
    const nb::module_ numpy = nb::module_::import_("numpy");
    const nb::object same = numpy.attr("asarray")(nb::cast(array));
    const bool floating = static_cast<Code>(array.dtype().code) == Code::Float;
    const nb::object made = numpy.attr("ascontiguousarray")(
        same, type ? same.attr("dtype") : numpy.attr(floating ? "float32" : "int64"));
    return tensor_from(nb::cast<Array>(made));
  }
  std::vector<int64_t> sizes(array.ndim()), strides(array.ndim());
  bool contiguous = true;
  int64_t expected = 1;
  for (size_t i = array.ndim(); i-- > 0;) {
    sizes[i] = static_cast<int64_t>(array.shape(i));
    strides[i] = array.stride(i);
    contiguous = contiguous && (sizes[i] == 1 || strides[i] == expected);
    expected *= sizes[i];
  }
  auto owner = std::make_shared<Array>(array);
  if (contiguous || expected == 0) {
    return Tensor::borrow(array.data(), shape_from(sizes), *type, std::move(owner));
  }
  int64_t reach = 1;  // elements from the first to the last
  for (size_t i = 0; i < sizes.size(); ++i) {
    reach += (sizes[i] - 1) * strides[i];
  }
  return Tensor::borrow(array.data(), {reach}, *type, std::move(owner))
      .alias(shape_from(sizes), shape_from(strides), 0);
}

Tensor tensor_like(nb::handle value, std::optional<DType> type) {
  Tensor made;
  if (Tensor* tensor = nullptr; nb::try_cast(value, tensor) && tensor != nullptr) {
    made = *tensor;
  } else if (PyBool_Check(value.ptr())) {
    made = Tensor::full({}, nb::cast<bool>(value) ? 1 : 0, DType::boolean);
  } else if (PyFloat_Check(value.ptr())) {
    made = Tensor::scalar(nb::cast<double>(value), type.value_or(DType::f32));
  } else if (PyLong_Check(value.ptr())) {
    made = Tensor::full({}, nb::cast<double>(value), DType::i64);
  } else if (Array array; nb::try_cast(value, array)) {
    made = tensor_from(array);
  } else {
    const nb::module_ numpy = nb::module_::import_("numpy");
    nb::object rows = numpy.attr("asarray")(value);
    if (nb::cast<std::string>(rows.attr("dtype").attr("kind")) == "f") {
      rows = rows.attr("astype")(numpy.attr("float32"));  // lists of numbers, as PyTorch has them
    }
    if (nb::cast<std::string>(rows.attr("dtype").attr("kind")) == "O") {
      throw nb::type_error("rows of different lengths, or values that are no numbers");
    }
    made = tensor_from(nb::cast<Array>(rows));
  }
  return type ? heed::cast(made, *type) : made;
}

namespace {

nb::dlpack::dtype kind_of(DType type) {
  const auto code = [](Code code, int bits) {
    return nb::dlpack::dtype{static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
  };
  switch (type) {
    case DType::f64:
      return code(Code::Float, 64);
    case DType::f16:
      return code(Code::Float, 16);
    case DType::bf16:
      return code(Code::Bfloat, 16);
    case DType::i64:
      return code(Code::Int, 64);
    case DType::i32:
      return code(Code::Int, 32);
    case DType::u8:
      return code(Code::UInt, 8);
    case DType::boolean:
      return code(Code::Bool, 8);
    default:
      return code(Code::Float, 32);
  }
}

template <class... Framework>
nb::object array_of(const Tensor& tensor) {
  auto* kept = new Tensor(tensor.detach());
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  std::vector<size_t> sizes(kept->shape().begin(), kept->shape().end());
  std::vector<int64_t> strides(kept->strides().begin(), kept->strides().end());
  return nb::cast(nb::ndarray<Framework...>(kept->raw(), sizes.size(), sizes.data(), owner,
                                            strides.data(), kind_of(kept->dtype()),
                                            nb::device::cpu::value));
}

}  // namespace

nb::object numpy_from(const Tensor& tensor) {
  const bool foreign = tensor.dtype() == DType::bf16 || heed::is_quantized(tensor.dtype());
  return array_of<nb::numpy>(foreign ? heed::dequantize(tensor.detach()) : tensor);
}

nb::object dlpack_from(const Tensor& tensor) { return array_of(tensor); }

nb::object optional_tensor(const Tensor& tensor) {
  return tensor.defined() ? nb::cast(tensor) : nb::none();
}

Shape shape_from(const std::vector<int64_t>& sizes) {
  return Shape(std::span<const int64_t>(sizes));
}

Shape shape_from(const nb::args& sizes) {
  if (sizes.size() == 1 && !PyLong_Check(sizes[0].ptr())) {
    return shape_from(nb::cast<std::vector<int64_t>>(sizes[0]));
  }
  std::vector<int64_t> each;
  for (const nb::handle size : sizes) {
    each.push_back(nb::cast<int64_t>(size));
  }
  return shape_from(each);
}

nb::tuple tuple_from(const Shape& shape) {
  nb::list sizes;
  for (const int64_t size : shape) {
    sizes.append(size);
  }
  return nb::tuple(sizes);
}

nb::str python_text(std::string_view text) {
  PyObject* made =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (made == nullptr) {
    throw nb::python_error();
  }
  return nb::steal<nb::str>(made);
}

nb::object python_from(const std::string& json) {
  return nb::module_::import_("json").attr("loads")(json);
}

std::string json_from(nb::handle value) {
  return nb::cast<std::string>(nb::module_::import_("json").attr("dumps")(value));
}

std::pair<Tensor, Tensor> promoted(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype()) {
    return {a, b};
  }
  // In the order of PyTorch's promotion; a tensor of rank 0 does not widen one of its own kind.
  const auto rank = [](const Tensor& x) {
    constexpr DType kOrder[] = {DType::boolean, DType::u8,   DType::i32, DType::i64,
                                DType::f16,     DType::bf16, DType::f32, DType::f64};
    for (int i = 0; i < 8; ++i) {
      if (kOrder[i] == x.dtype()) {
        return i;
      }
    }
    return 6;
  };
  const bool same_kind = heed::is_floating(a.dtype()) == heed::is_floating(b.dtype());
  const bool keep_a = same_kind && b.rank() == 0 && a.rank() > 0;
  const bool keep_b = same_kind && a.rank() == 0 && b.rank() > 0;
  const DType type = keep_a              ? a.dtype()
                     : keep_b            ? b.dtype()
                     : rank(a) > rank(b) ? a.dtype()
                                         : b.dtype();
  return {heed::cast(a, type), heed::cast(b, type)};
}

}  // namespace heed_python
