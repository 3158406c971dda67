#include <nanobind/stl/pair.h>
#include <nanobind/stl/variant.h>

#include "module.h"

using namespace nanobind::literals;

namespace heed_python {
namespace {

using MaybeTensor = std::optional<Tensor>;

// New tensors -------------------------------------------------------------------------------------

/// zeros(2, 3), zeros((2, 3)), zeros(2, 3, dtype=…).
template <class Make>
void creator(nb::module_& m, const char* name, const Make& make, const char* doc) {
  m.def(
      name,
      [make](const nb::args& shape, DType dtype, bool requires_grad) {
        return Tensor(make(shape_from(shape), dtype)).set_requires_grad(requires_grad);
      },
      "shape"_a, "dtype"_a = DType::f32, "requires_grad"_a = false,
      nb::sig(("def " + std::string(name) +
               "(*shape: int | collections.abc.Sequence[int], dtype: dtype = ..., "
               "requires_grad: bool = False) -> Tensor")
                  .c_str()),
      doc);
}

Tensor random_integers(int64_t low, int64_t high, const std::vector<int64_t>& size) {
  if (high <= low) {
    throw nb::value_error("randint: high must be above low");
  }
  const heed::RandomKey key = heed::next_random_key();
  heed::Random random(key.seed, key.stream);
  Tensor made = Tensor::empty(shape_from(size), DType::i64);
  for (int64_t i = 0; i < made.numel(); ++i) {
    made.data<int64_t>()[i] =
        low + static_cast<int64_t>(random.below(static_cast<uint64_t>(high - low)));
  }
  return made;
}

void bind_creation(nb::module_& m) {
  creator(
      m, "zeros", [](const Shape& s, DType t) { return Tensor::zeros(s, t); }, "All 0.");
  creator(
      m, "ones", [](const Shape& s, DType t) { return Tensor::ones(s, t); }, "All 1.");
  creator(
      m, "empty", [](const Shape& s, DType t) { return Tensor::empty(s, t); },
      "Whatever was in memory.");
  creator(
      m, "rand", [](const Shape& s, DType t) { return heed::rand(s, {.dtype = t}); },
      "Uniform in [0, 1), from the random state of manual_seed().");
  creator(
      m, "randn", [](const Shape& s, DType t) { return heed::randn(s, {.dtype = t}); },
      "Standard normal, from the random state of manual_seed().");
  m.def(
      "full",
      [](const std::vector<int64_t>& size, nb::handle value, std::optional<DType> dtype) {
        const bool whole = PyLong_Check(value.ptr()) && !PyBool_Check(value.ptr());
        return Tensor::full(shape_from(size), nb::cast<double>(value),
                            dtype.value_or(whole ? DType::i64 : DType::f32));
      },
      "size"_a, "fill_value"_a, "dtype"_a.none() = nb::none(),
      nb::sig("def full(size: collections.abc.Sequence[int], fill_value: float, "
              "dtype: dtype | None = None) -> Tensor"),
      "Whole numbers make i64, as in PyTorch.");
  m.def(
      "eye",
      [](int64_t n, DType dtype) {
        Tensor made = Tensor::zeros({n, n}, dtype);
        made.alias({n}, {n + 1}, 0).fill(1);
        return made;
      },
      "n"_a, "dtype"_a = DType::f32);
  m.def(
      "zeros_like", [](const Tensor& x) { return Tensor::zeros(x.shape(), x.dtype()); }, "input"_a);
  m.def(
      "ones_like", [](const Tensor& x) { return Tensor::ones(x.shape(), x.dtype()); }, "input"_a);
  m.def(
      "rand_like", [](const Tensor& x) { return heed::rand(x.shape()); }, "input"_a);
  m.def(
      "randn_like", [](const Tensor& x) { return heed::randn(x.shape()); }, "input"_a);
  const auto integers = [](int64_t start, int64_t stop, int64_t step, std::optional<DType> type) {
    return heed::arange_integers(start, stop, step, type.value_or(DType::i64));
  };
  m.def(
      "arange",
      [integers](int64_t stop, std::optional<DType> type) { return integers(0, stop, 1, type); },
      "end"_a, nb::kw_only(), "dtype"_a.none() = nb::none());
  m.def("arange", integers, "start"_a, "end"_a, "step"_a = 1, nb::kw_only(),
        "dtype"_a.none() = nb::none());
  m.def(
      "arange",
      [](double start, double stop, double step, std::optional<DType> type) {
        return heed::arange_reals(start, stop, step, type.value_or(DType::f32));
      },
      "start"_a, "end"_a, "step"_a = 1.0, nb::kw_only(), "dtype"_a.none() = nb::none());
  m.def("randint", &random_integers, "low"_a, "high"_a, "size"_a,
        "Whole numbers from low to high - 1, from the random state of manual_seed().");
  m.def(
      "randint",
      [](int64_t high, const std::vector<int64_t>& size) { return random_integers(0, high, size); },
      "high"_a, "size"_a);
  m.def("manual_seed", &heed::manual_seed, "seed"_a,
        "Random numbers of this thread start anew: the same seed gives the same ones.");
}

// Triangles: element (i, j) is kept where j - i is on the right side of `diagonal`.
Tensor triangle(const Tensor& x, int64_t diagonal, bool lower) {
  const int64_t rows = x.size(-2), columns = x.size(-1);
  const Tensor i = heed::unsqueeze(heed::arange(rows), 1) + static_cast<double>(diagonal);
  const Tensor j = heed::unsqueeze(heed::arange(columns), 0);
  const Tensor kept = lower ? i >= j : i <= j;
  return heed::where(kept, x, Tensor::zeros({1}, x.dtype()));
}

// Attention ---------------------------------------------------------------------------------------

heed::AttentionOptions attention_options(const MaybeTensor& mask, bool causal,
                                         std::optional<double> scale, double dropout) {
  heed::AttentionOptions options;
  if (mask && heed::is_floating(mask->dtype())) {
    options.bias = *mask;
  } else if (mask) {
    options.mask =
        mask->dtype() == DType::boolean || mask->dtype() == DType::u8 ? *mask : *mask != 0.0;
  }
  if (causal) {
    options.position = heed::Causal{};
  }
  options.scale = scale;
  options.dropout = dropout;
  options.training = dropout > 0;
  return options;
}

/// Keeps what the fast path leaves behind, and passes everything on to the recorder in scope.
class Kept : public heed::Observer {
 public:
  explicit Kept(heed::Observer* outer = heed::Observer::current()) : outer_(outer) {}
  Tensor activation(const std::string& name, const Tensor& value) override {
    return outer_ != nullptr ? outer_->activation(name, value) : value;
  }
  bool wants(const std::string& name) override { return outer_ != nullptr && outer_->wants(name); }
  void adjust(const std::string& name, heed::AttentionOptions& options) override {
    if (outer_ != nullptr) {
      outer_->adjust(name, options);
    }
  }
  void attention(const std::string& name, const heed::AttentionRecord& record) override {
    record_ = record;
    if (outer_ != nullptr) {
      outer_->attention(name, record);
    }
  }
  Tensor weights() const { return record_.all_weights(); }

 private:
  heed::Observer* outer_;
  heed::AttentionRecord record_;
};

std::pair<Tensor, Tensor> attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const MaybeTensor& mask, bool causal,
                                    std::optional<double> scale) {
  const heed::AttentionOptions options = attention_options(mask, causal, scale, 0);
  return interruptible([&](std::stop_token) {
    const Kept kept;
    const Tensor output = heed::attention(q, k, v, options);
    Shape shape(q.shape().begin(), static_cast<size_t>(q.rank() - 1));
    shape.push_back(k.size(-2));
    return std::pair(output, heed::reshape(kept.weights(), shape));
  });
}

void bind_attention(nb::module_& m) {
  m.def("attention", &attention, "q"_a, "k"_a, "v"_a, "mask"_a.none() = nb::none(),
        "causal"_a = false, "scale"_a.none() = nb::none());
  m.def(
      "scaled_dot_product_attention",
      [](const Tensor& q, const Tensor& k, const Tensor& v, const MaybeTensor& mask, double dropout,
         bool is_causal, std::optional<double> scale) {
        return released(k.rank() < 2 ? 0 : q.numel() * k.size(-2) / 16, [&] {
          return heed::attention(q, k, v, attention_options(mask, is_causal, scale, dropout));
        });
      },
      "query"_a, "key"_a, "value"_a, "attn_mask"_a.none() = nb::none(), "dropout_p"_a = 0.0,
      "is_causal"_a = false, "scale"_a.none() = nb::none(),
      "Attention without the matrix of weights in memory. A bool mask is True where a query may "
      "attend to a key; a real one is added to the scores.");
  m.def("alibi_slopes", &heed::alibi_slopes, "heads"_a);
  m.def(
      "alibi_bias",
      [](int64_t heads, int64_t queries, int64_t keys, int64_t offset) {
        return heed::alibi_bias(heads, queries, keys, offset).contiguous();  // may be written to
      },
      "heads"_a, "queries"_a, "keys"_a, "offset"_a = 0);
  m.def("t5_bucket", &heed::t5_bucket, "distance"_a, "bidirectional"_a = true, "buckets"_a = 32,
        "max_distance"_a = 128);
  m.def(
      "sinusoidal_positions",
      [](int64_t positions, int64_t width) {
        return heed::sinusoidal_positions(positions, width, heed::SinusoidLayout::interleaved);
      },
      "positions"_a, "hidden_size"_a);
  nb::enum_<heed::AttentionKernel>(m, "AttentionKernel")
      .value("automatic", heed::AttentionKernel::automatic)
      .value("reference", heed::AttentionKernel::reference)
      .value("chunked", heed::AttentionKernel::chunked)
      .value("flash", heed::AttentionKernel::flash);
  m.def(
      "attention_by_kernel",
      [](const Tensor& q, const Tensor& k, const Tensor& v, heed::AttentionKernel kernel) {
        heed::AttentionOptions options;
        options.kernel = kernel;
        return interruptible([&](std::stop_token) { return heed::attention(q, k, v, options); });
      },
      "q"_a, "k"_a, "v"_a, "kernel"_a,
      "Attention by one kernel: reference, chunked or flash. Results agree but for rounding.");
}

// Layers as functions and losses ------------------------------------------------------------------

heed::Activation activation_from(const std::string& name) {
  const std::pair<const char*, heed::Activation> known[] = {
      {"none", heed::Activation::none},      {"relu", heed::Activation::relu},
      {"gelu", heed::Activation::gelu},      {"gelu_tanh", heed::Activation::gelu_tanh},
      {"silu", heed::Activation::silu},      {"tanh", heed::Activation::tanh},
      {"sigmoid", heed::Activation::sigmoid}};
  for (const auto& [each, activation] : known) {
    if (name == each) {
      return activation;
    }
  }
  throw nb::value_error(("there is no activation '" + name + "'").c_str());
}

/// logits [N, C] or [N, C, d…] with targets [N] or [N, d…]: PyTorch has the classes second.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, int64_t ignore_index,
                     double label_smoothing) {
  const Release release(logits.numel());
  Tensor rows = logits;
  if (logits.rank() > 2 && targets.rank() == logits.rank() - 1 &&
      targets.size(1) == logits.size(2) && targets.size(-1) != logits.size(1)) {
    Shape order{0};
    for (int i = 2; i < logits.rank(); ++i) {
      order.push_back(i);
    }
    order.push_back(1);
    rows = heed::permute(logits, order);
  }
  return heed::cross_entropy(rows, targets,
                             {.ignore_index = ignore_index, .label_smoothing = label_smoothing});
}

void bind_layers(nb::module_& m) {
  m.def(
      "linear",
      [](const Tensor& x, const Tensor& weight, const MaybeTensor& bias,
         const std::optional<std::string>& activation, const MaybeTensor& residual) {
        heed::LinearOptions options;
        if (activation) {
          options.activation = activation_from(*activation);
        }
        options.residual = or_undefined(residual);
        return released(x.numel() * weight.size(0) / 64,
                        [&] { return heed::linear(x, weight, or_undefined(bias), options); });
      },
      "input"_a, "weight"_a, "bias"_a.none() = nb::none(), nb::kw_only(),
      "activation"_a.none() = nb::none(), "residual"_a.none() = nb::none(),
      "input times weight [out, in] transposed, plus bias; then the activation and the residual.");
  m.def(
      "embedding",
      [](const Tensor& input, const Tensor& weight) { return heed::embedding(weight, input); },
      "input"_a, "weight"_a);
  m.def(
      "layer_norm",
      [](const Tensor& x, const Tensor& weight, const MaybeTensor& bias, double eps) {
        const Release release(x.numel());
        return heed::layer_norm(x, weight, or_undefined(bias), eps);
      },
      "input"_a, "weight"_a, "bias"_a.none() = nb::none(), "eps"_a = 1e-5);
  m.def(
      "rms_norm",
      [](const Tensor& x, const Tensor& weight, double eps) {
        const Release release(x.numel());
        return heed::rms_norm(x, weight, eps);
      },
      "input"_a, "weight"_a, "eps"_a = 1e-6);
  m.def(
      "dropout",
      [](const Tensor& x, double p, bool training) { return heed::dropout(x, p, training); },
      "input"_a, "p"_a = 0.5, "training"_a = true);
  m.def("cross_entropy", &cross_entropy, "input"_a, "target"_a, "ignore_index"_a = -100,
        "label_smoothing"_a = 0.0);
  m.def(
      "linear_cross_entropy",
      [](const Tensor& x, const Tensor& weight, const Tensor& target, int64_t ignore_index) {
        const Release release;
        return heed::linear_cross_entropy(x, weight, {}, target, {.ignore_index = ignore_index});
      },
      "input"_a, "weight"_a, "target"_a, "ignore_index"_a = -100,
      "cross_entropy(linear(input, weight), target) without the logits of a batch in memory.");
  m.def(
      "mse_loss",
      [](const Tensor& input, const Tensor& target) { return heed::mse(input, target); }, "input"_a,
      "target"_a);
  m.def(
      "unfold_patches",
      [](const Tensor& images, int64_t size) { return heed::unfold_patches(images, size, size); },
      "images"_a, "size"_a);
  m.def(
      "lstm_cell",
      [](const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& weight_ih,
         const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh) {
        const heed::LstmState next =
            heed::lstm_cell(x, {h, c}, weight_ih, weight_hh, bias_ih, bias_hh);
        return std::pair(next.h, next.c);
      },
      "input"_a, "h"_a, "c"_a, "weight_ih"_a, "weight_hh"_a, "bias_ih"_a, "bias_hh"_a);
  m.def("gru_cell", &heed::gru_cell, "input"_a, "h"_a, "weight_ih"_a, "weight_hh"_a, "bias_ih"_a,
        "bias_hh"_a);
  m.def(
      "rotary",
      [](const Tensor& x, const Tensor& positions, double theta) {
        const heed::Rotary rotary(
            x.size(-1),
            positions.numel() == 0
                ? 1
                : 1 + static_cast<int64_t>(
                          heed::max(heed::cast(heed::reshape(positions, {-1}), DType::f32), 0)
                              .item()),
            theta);
        return rotary(x, positions);
      },
      "input"_a, "positions"_a, "theta"_a = 10000.0,
      "Rotates the pairs of input [N, heads, head_dim] by the position of each row (RoPE).");
}

struct NoGradScope {
  NoGradScope() = default;
  NoGradScope(const NoGradScope&) = delete;
  std::vector<std::unique_ptr<heed::NoGrad>> entered;
};
struct PrecisionScope {
  explicit PrecisionScope(DType type) : type(type) {}
  PrecisionScope(const PrecisionScope&) = delete;
  DType type;
  std::vector<std::unique_ptr<heed::ActivationScope>> entered;
};

void bind_scopes(nb::module_& m) {
  nb::class_<NoGradScope>(m, "_NoGrad")
      .def(nb::init<>())
      .def("__enter__",
           [](NoGradScope& self) { self.entered.push_back(std::make_unique<heed::NoGrad>()); })
      .def(
          "__exit__", [](NoGradScope& self, const nb::args&) { self.entered.pop_back(); },
          nb::sig("def __exit__(self, *args: object) -> None"));
  nb::class_<PrecisionScope>(m, "_Precision")
      .def(nb::init<DType>(), "dtype"_a)
      .def("__enter__",
           [](PrecisionScope& self) {
             self.entered.push_back(std::make_unique<heed::ActivationScope>(self.type));
           })
      .def(
          "__exit__", [](PrecisionScope& self, const nb::args&) { self.entered.pop_back(); },
          nb::sig("def __exit__(self, *args: object) -> None"));
  m.def("is_grad_enabled", &heed::grad_enabled);
  m.def(
      "memory_in_use", [] { return heed::memory_stats().in_use; }, "Bytes in live tensors.");
  m.def(
      "peak_memory", [] { return heed::memory_stats().peak; },
      "The most bytes that were in live tensors since reset_peak_memory().");
  m.def("reset_peak_memory", [] {
    heed::release_cached_memory();
    heed::reset_peak_memory();
  });
}

}  // namespace

void bind_functional(nb::module_& m) {
  bind_creation(m);
  m.def(
      "tril", [](const Tensor& x, int64_t diagonal) { return triangle(x, diagonal, true); },
      "input"_a, "diagonal"_a = 0);
  m.def(
      "triu", [](const Tensor& x, int64_t diagonal) { return triangle(x, diagonal, false); },
      "input"_a, "diagonal"_a = 0);
  bind_attention(m);
  bind_layers(m);
  bind_scopes(m);
}

}  // namespace heed_python
