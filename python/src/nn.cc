#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>

#include "module.h"

using namespace nanobind::literals;

namespace heed_python {
namespace {

using MaybeTensor = std::optional<Tensor>;
using Named = std::vector<std::pair<std::string, Tensor>>;

/// Fresh parameters whose values depend on the random state of manual_seed() alone.
heed::Scope fresh_scope(std::optional<uint64_t> seed) {
  if (!seed) {
    const heed::RandomKey key = heed::next_random_key();
    const auto words = heed::philox(key.seed, key.stream, 0);
    seed = static_cast<uint64_t>(words[0]) << 32 | words[1];
  }
  return heed::Scope::fresh(*seed);
}

Named named(const heed::Scope& scope) {
  Named all;
  for (const heed::Parameter& each : scope.parameters()) {
    all.emplace_back(each.name, each.tensor);
  }
  return all;
}

/// A layer of the library with its parameters by name.
template <class L>
struct Layer {
  heed::Scope scope;
  L layer;
};
using AttentionLayer = Layer<heed::MultiHeadAttention>;
using BlockLayer = Layer<heed::TransformerBlock>;
using HeadListLayer = Layer<heed::HeadList>;
using ScoredLayer = Layer<heed::ScoredAttention>;

void bind_attention_layers(nb::module_& m) {
  nb::class_<AttentionLayer>(m, "MultiHeadAttention")
      .def(
          "__init__",
          [](AttentionLayer* self, int64_t embed_dim, int64_t num_heads, double dropout, bool bias,
             bool causal) {
            heed::Scope scope = fresh_scope({});
            heed::MultiHeadAttention layer(scope, {embed_dim, num_heads, bias, causal, dropout});
            new (self) AttentionLayer{scope, std::move(layer)};
          },
          "embed_dim"_a, "num_heads"_a, "dropout"_a, "bias"_a, "causal"_a)
      .def("parameters", [](const AttentionLayer& self) { return named(self.scope); })
      .def(
          "__call__",
          [](const AttentionLayer& self, const Tensor& q, const Tensor& k, const Tensor& v,
             const MaybeTensor& mask, const MaybeTensor& key_padding, bool training,
             bool need_weights) {
            return released(q.numel() * 16, [&] {
              const heed::AttentionOutput out = self.layer(
                  q, k, v, {or_undefined(mask), or_undefined(key_padding), training, need_weights});
              return std::pair(out.output, out.weights);
            });
          },
          "q"_a, "k"_a, "v"_a, "mask"_a.none(), "key_padding"_a.none(), "training"_a,
          "need_weights"_a);
  nb::class_<HeadListLayer>(m, "HeadList")
      .def("__init__",
           [](HeadListLayer* self, int64_t width, int64_t heads, bool causal) {
             heed::Scope scope = fresh_scope({});
             heed::HeadList layer(scope, width, heads, causal);
             new (self) HeadListLayer{scope, std::move(layer)};
           })
      .def("parameters", [](const HeadListLayer& self) { return named(self.scope); })
      .def("fused",
           [](const HeadListLayer& self) {
             return AttentionLayer{self.scope, self.layer.fused()};
           })
      .def("__call__", [](const HeadListLayer& self, const Tensor& x) { return self.layer(x); });
  nb::enum_<heed::ScoredAttention::Kind>(m, "ScoreKind")
      .value("additive", heed::ScoredAttention::Kind::additive)
      .value("dot", heed::ScoredAttention::Kind::dot)
      .value("general", heed::ScoredAttention::Kind::general)
      .value("concat", heed::ScoredAttention::Kind::concat);
  nb::class_<ScoredLayer>(m, "ScoredAttention")
      .def("__init__",
           [](ScoredLayer* self, heed::ScoredAttention::Kind kind, int64_t query, int64_t key,
              int64_t hidden) {
             heed::Scope scope = fresh_scope({});
             heed::ScoredAttention layer(scope, kind, query, key, hidden);
             new (self) ScoredLayer{scope, std::move(layer)};
           })
      .def("parameters", [](const ScoredLayer& self) { return named(self.scope); })
      .def(
          "__call__",
          [](const ScoredLayer& self, const Tensor& query, const Tensor& memory,
             const MaybeTensor& padding) {
            return self.layer(query, memory, or_undefined(padding));
          },
          "query"_a, "memory"_a, "key_padding"_a.none() = nb::none());
}

heed::Activation block_activation(const std::string& name) {
  if (name != "relu" && name != "gelu" && name != "silu" && name != "gelu_tanh") {
    throw nb::value_error(
        ("there is no activation '" + name + "'; there are relu, gelu, gelu_tanh and silu")
            .c_str());
  }
  return name == "relu"   ? heed::Activation::relu
         : name == "gelu" ? heed::Activation::gelu
         : name == "silu" ? heed::Activation::silu
                          : heed::Activation::gelu_tanh;
}

void bind_blocks(nb::module_& m) {
  nb::class_<BlockLayer>(m, "TransformerBlock")
      .def("__init__",
           [](BlockLayer* self, int64_t d_model, int64_t n_heads, int64_t d_ff, double dropout,
              const std::string& activation, bool norm_first, bool causal, bool cross,
              double norm_eps) {
             heed::TransformerOptions options;
             options.hidden_size = d_model;
             options.num_heads = n_heads;
             options.intermediate_size = d_ff;
             options.dropout = dropout;
             options.activation = block_activation(activation);
             options.pre_norm = norm_first;
             options.causal = causal;
             options.cross_attention = cross;
             options.norm_eps = norm_eps;
             heed::Scope scope = fresh_scope({});
             heed::TransformerBlock layer(scope, options);
             new (self) BlockLayer{scope, std::move(layer)};
           })
      .def("parameters", [](const BlockLayer& self) { return named(self.scope); })
      .def(
          "__call__",
          [](const BlockLayer& self, const Tensor& x, const MaybeTensor& mask,
             const MaybeTensor& key_padding, const MaybeTensor& encoder_hidden_states,
             const MaybeTensor& encoder_padding, bool training) {
            return released(x.numel() * 16, [&] {
              return self.layer(x, {.mask = or_undefined(mask),
                                    .key_padding = or_undefined(key_padding),
                                    .encoder_hidden_states = or_undefined(encoder_hidden_states),
                                    .encoder_padding = or_undefined(encoder_padding),
                                    .training = training});
            });
          },
          "x"_a, "mask"_a.none(), "key_padding"_a.none(), "encoder_hidden_states"_a.none(),
          "encoder_padding"_a.none(), "training"_a);
}

// Hook names of layers that Python calls one by one.
struct HookScope {
  HookScope(std::string name, int64_t index) : name(std::move(name)), index(index) {}
  HookScope(const HookScope&) = delete;
  std::string name;
  int64_t index;
  std::vector<std::unique_ptr<heed::HookScope>> entered;
};

// Optimizers --------------------------------------------------------------------------------------

void bind_optimizer(nb::module_& m) {
  nb::enum_<heed::OptimizerKind>(m, "OptimizerKind")
      .value("sgd", heed::OptimizerKind::sgd)
      .value("adam", heed::OptimizerKind::adam)
      .value("adamw", heed::OptimizerKind::adamw);
  nb::class_<heed::Optimizer>(m, "Optimizer")
      .def(
          "__init__",
          [](heed::Optimizer* self, heed::OptimizerKind kind, const Named& parameters, double lr,
             double beta1, double beta2, double eps, double weight_decay, double momentum,
             bool nesterov) {
            new (self)
                heed::Optimizer(parameters, heed::OptimizerOptions{.kind = kind,
                                                                   .lr = lr,
                                                                   .beta1 = beta1,
                                                                   .beta2 = beta2,
                                                                   .eps = eps,
                                                                   .weight_decay = weight_decay,
                                                                   .momentum = momentum,
                                                                   .nesterov = nesterov});
          },
          "kind"_a, "parameters"_a, "lr"_a, "beta1"_a = 0.9, "beta2"_a = 0.999, "eps"_a = 1e-8,
          "weight_decay"_a = 0.0, "momentum"_a = 0.0, "nesterov"_a = false)
      .def(
          "step",
          [](heed::Optimizer& self, double grad_scale) {
            const Release release;
            self.step(grad_scale);
          },
          "grad_scale"_a = 1.0)
      .def("zero_grad", &heed::Optimizer::zero_grad)
      .def("grad_norm", &heed::Optimizer::grad_norm)
      .def("set_lr", &heed::Optimizer::set_lr, "lr"_a)
      .def("state",
           [](const heed::Optimizer& self) {
             const auto state = self.state();
             return std::map<std::string, Tensor>(state.begin(), state.end());
           })
      .def(
          "load_state",
          [](heed::Optimizer& self, const std::map<std::string, Tensor>& state) {
            self.load_state({state.begin(), state.end()});
          },
          "state"_a);
  m.def(
      "clip_grad_norm_",
      [](const std::vector<Tensor>& parameters, double max_norm) {
        const Release release;
        return heed::clip_grad_norm(parameters, max_norm);
      },
      "parameters"_a, "max_norm"_a,
      "Scales all gradients so that their norm is at most `max_norm`; returns the norm before.");
  m.def(
      "schedule_lr",
      [](const std::string& kind, double peak, int64_t warmup, int64_t total, double floor,
         int64_t step) {
        return heed::Schedule{heed::schedule_from_name(kind), peak, warmup, total, floor}.lr(step);
      },
      "kind"_a, "peak"_a, "warmup"_a, "total"_a, "floor"_a, "step"_a,
      "The learning rate of an update, counted from 1: a linear warm-up to `peak`, then constant, "
      "cosine, linear or inverse_sqrt.");
}

}  // namespace

void bind_nn(nb::module_& m) {
  m.def(
      "fresh_parameter",
      [](const std::vector<int64_t>& shape, const std::string& kind, double value) {
        const heed::Init init = kind == "normal"    ? heed::Init::normal(value)
                                : kind == "uniform" ? heed::Init::uniform(value)
                                                    : heed::Init{heed::Init::Kind::constant, value};
        return fresh_scope({}).parameter("p", shape_from(shape), init);
      },
      "shape"_a, "kind"_a, "value"_a);
  bind_attention_layers(m);
  bind_blocks(m);
  nb::class_<HookScope>(m, "HookScope")
      .def(nb::init<std::string, int64_t>(), "name"_a, "index"_a)
      .def("__enter__",
           [](HookScope& self) {
             self.entered.push_back(
                 std::make_unique<heed::HookScope>(self.name.c_str(), self.index));
           })
      .def(
          "__exit__", [](HookScope& self, const nb::args&) { self.entered.pop_back(); },
          nb::sig("def __exit__(self, *args: object) -> None"));
  m.def("observing", [] { return heed::Observer::current() != nullptr; });
  m.def(
      "observe",
      [](const std::string& name, const Tensor& value) {
        return heed::observe(name.c_str(), value);
      },
      "name"_a, "value"_a, "Passes an activation to the recorder in scope under a hook name.");
  bind_optimizer(m);
  m.def(
      "load_file",
      [](const std::filesystem::path& path) {
        const heed::TensorMap all = heed::load_safetensors(path);
        return std::map<std::string, Tensor>(all.begin(), all.end());
      },
      "path"_a);
  m.def(
      "save_file",
      [](const std::map<std::string, Tensor>& tensors, const std::filesystem::path& path) {
        const Release release;
        heed::save_safetensors(path, {tensors.begin(), tensors.end()});
      },
      "tensors"_a, "path"_a);
}

}  // namespace heed_python
