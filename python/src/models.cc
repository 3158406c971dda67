#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>

#include "module.h"

using namespace nanobind::literals;

namespace heed_python {
namespace {

using MaybeTensor = std::optional<Tensor>;

// Models ------------------------------------------------------------------------------------------

const std::pair<const char*, Tensor heed::ModelInput::*> kInputs[] = {
    {"input_ids", &heed::ModelInput::input_ids},
    {"attention_mask", &heed::ModelInput::attention_mask},
    {"token_type_ids", &heed::ModelInput::token_type_ids},
    {"decoder_input_ids", &heed::ModelInput::decoder_input_ids},
    {"decoder_attention_mask", &heed::ModelInput::decoder_attention_mask},
    {"pixel_values", &heed::ModelInput::pixel_values},
    {"input_features", &heed::ModelInput::input_features},
    {"features", &heed::ModelInput::features},
    {"decoder_features", &heed::ModelInput::decoder_features},
    {"global_attention_mask", &heed::ModelInput::global_attention_mask},
    {"start_positions", &heed::ModelInput::start_positions},
    {"end_positions", &heed::ModelInput::end_positions},
    {"context_input_ids", &heed::ModelInput::context_input_ids},
    {"context_attention_mask", &heed::ModelInput::context_attention_mask},
    {"doc_scores", &heed::ModelInput::doc_scores},
    {"labels", &heed::ModelInput::labels}};
static_assert(std::size(kInputs) == heed::kInputTensors.size());
const std::pair<const char*, Tensor heed::ModelOutput::*> kOutputs[] = {
    {"loss", &heed::ModelOutput::loss},
    {"logits", &heed::ModelOutput::logits},
    {"last_hidden_state", &heed::ModelOutput::last_hidden_state},
    {"pooler_output", &heed::ModelOutput::pooler_output},
    {"encoder_last_hidden_state", &heed::ModelOutput::encoder_last_hidden_state},
    {"start_logits", &heed::ModelOutput::start_logits},
    {"end_logits", &heed::ModelOutput::end_logits},
    {"logits_per_image", &heed::ModelOutput::logits_per_image},
    {"logits_per_text", &heed::ModelOutput::logits_per_text},
    {"image_embeds", &heed::ModelOutput::image_embeds},
    {"text_embeds", &heed::ModelOutput::text_embeds}};

/// A pass with inputs by Hugging Face's names; results likewise.
nb::dict run_model(const PyModel& self, const nb::dict& inputs, bool training, bool want_logits,
                   bool grad) {
  heed::ModelInput input;
  input.training = training;
  input.want_logits = want_logits;
  for (const auto& [name, value] : inputs) {
    const auto wanted = nb::cast<std::string>(name);
    if (wanted == "passages") {
      input.passages = nb::cast<int64_t>(value);
      continue;
    }
    const auto found = std::find_if(std::begin(kInputs), std::end(kInputs),
                                    [&](const auto& each) { return wanted == each.first; });
    if (found == std::end(kInputs)) {
      throw nb::type_error(("a model has no input '" + wanted + "'").c_str());
    }
    Tensor tensor = tensor_like(value);
    if (tensor.dtype() == DType::i32) {
      tensor = heed::cast(tensor, DType::i64);
    } else if (tensor.dtype() == DType::f64) {
      tensor = heed::cast(tensor, DType::f32);
    }
    input.*(found->second) = tensor;
  }
  const heed::ModelOutput output = interruptible([&](std::stop_token) {
    if (grad) {
      return self.loaded.model->forward(input);
    }
    const heed::NoGrad no_grad;
    return self.loaded.model->forward(input);
  });
  nb::dict result;
  for (const auto& [name, field] : kOutputs) {
    if ((output.*field).defined()) {
      result[name] = output.*field;
    }
  }
  return result;
}

PyModel create_model(const std::string& config, std::optional<uint64_t> seed,
                     const PyTokenizer* tokenizer) {
  std::shared_ptr<const heed::Model> model =
      heed::create_model(config, seed ? *seed : heed::next_random_key().stream);
  return {{"", std::move(model), tokenizer != nullptr ? tokenizer->tokenizer : heed::Tokenizer()}};
}

void bind_model(nb::module_& m) {
  nb::class_<PyModel>(m, "Model")
      .def("run", &run_model, "inputs"_a, "training"_a, "want_logits"_a, "grad"_a)
      .def_prop_ro(
          "tokenizer",
          [](const PyModel& self) -> nb::object {
            if (!self.loaded.tokenizer) {
              return nb::none();
            }
            return nb::cast(PyTokenizer{self.loaded.tokenizer, self.loaded.path.string()});
          },
          nb::sig("def tokenizer(self) -> Tokenizer | None"))
      .def_prop_ro("path", [](const PyModel& self) { return self.loaded.path.string(); })
      .def_prop_ro("model_type",
                   [](const PyModel& self) { return self.loaded.model->model_type(); })
      .def_prop_ro("config",
                   [](const PyModel& self) { return self.loaded.model->config().dump(2); })
      .def_prop_ro("num_parameters",
                   [](const PyModel& self) { return self.loaded.model->parameter_count(); })
      .def_prop_ro("num_layers",
                   [](const PyModel& self) { return self.loaded.model->num_layers(); })
      .def_prop_ro("num_heads", [](const PyModel& self) { return self.loaded.model->num_heads(); })
      .def_prop_ro("hidden_size",
                   [](const PyModel& self) { return self.loaded.model->hidden_size(); })
      .def_prop_ro("vocab_size",
                   [](const PyModel& self) { return self.loaded.model->vocab_size(); })
      .def_prop_ro("context_length",
                   [](const PyModel& self) { return self.loaded.model->context_length(); })
      .def_prop_ro("is_generative",
                   [](const PyModel& self) {
                     const heed::ModelKind kind = self.loaded.model->kind();
                     return kind == heed::ModelKind::decoder ||
                            kind == heed::ModelKind::encoder_decoder;
                   })
      .def("parameters",
           [](const PyModel& self) {
             std::vector<std::pair<std::string, Tensor>> all;
             for (const heed::Parameter& each : self.loaded.model->parameters()) {
               all.emplace_back(each.name, each.tensor);
             }
             return all;
           })
      .def("generation",
           [](const PyModel& self) { return heed::Pipeline(heed::TextGeneration(self.loaded)); })
      .def("set_gradient_checkpointing",
           [](const PyModel& self, bool on) {
             const_cast<heed::Model&>(*self.loaded.model).set_gradient_checkpointing(on);
           })
      .def(
          "save",
          [](const PyModel& self, const std::filesystem::path& folder, DType dtype) {
            const nb::gil_scoped_release release;
            heed::save_model(*self.loaded.model, folder, dtype);
            if (self.loaded.tokenizer) {
              self.loaded.tokenizer.save(folder);
            }
          },
          "folder"_a, "dtype"_a = DType::f32)
      .def(
          "explorer_page",
          [](const PyModel& self, const std::string& text, const std::string& language,
             int64_t budget) {
            return interruptible([&](std::stop_token) {
              const heed::ExplorerModel model{self.loaded.model->model_type(), self.loaded.path,
                                              self.loaded.model, self.loaded.tokenizer};
              heed::ExplorerFileOptions options;
              options.text = text;
              options.language = language;
              options.budget = budget;
              return heed::explorer_file(model, options);
            });
          },
          "text"_a, "language"_a, "budget"_a);
  m.def(
      "open_model",
      [](const std::filesystem::path& path, bool trainable,
         const std::optional<std::filesystem::path>& tokenizer) {
        const nb::gil_scoped_release release;
        heed::OpenOptions options;
        options.load.trainable = trainable;
        options.may_lack_tokenizer = true;
        options.tokenizer = tokenizer.value_or("");
        return PyModel{heed::open_model(path, options)};
      },
      "path"_a, "trainable"_a = false, "tokenizer"_a.none() = nb::none());
  m.def("create_model", &create_model, "config"_a, "seed"_a.none() = nb::none(),
        "tokenizer"_a.none() = nb::none());
  m.def("known_model_types", &heed::known_model_types);
}

// Recording ---------------------------------------------------------------------------------------

/// A recorder that watches from `__enter__` to `__exit__`.
struct PyRecorder {
  heed::RecorderOptions options;
  std::unique_ptr<heed::Recorder> recorder;
  std::vector<heed::RecordedAttention> attentions;
  std::map<std::string, Tensor> activations;

  const std::vector<heed::RecordedAttention>& recorded() const {
    return recorder ? recorder->attentions() : attentions;
  }
  void leave() {
    if (recorder) {
      attentions = recorder->attentions();
      activations = recorder->activations();
      recorder.reset();
    }
  }
  const heed::RecordedAttention& at(const std::string& kind, int64_t layer) const {
    std::string known;
    for (const heed::RecordedAttention& each : recorded()) {
      if (each.place.kind == kind && each.place.layer == layer) {
        return each;
      }
      const std::string name = each.place.kind + " " + std::to_string(each.place.layer);
      known += known.find(name) == std::string::npos ? (known.empty() ? "" : ", ") + name : "";
    }
    throw nb::index_error(("no attention of kind '" + kind + "' in layer " + std::to_string(layer) +
                           (known.empty() ? "; none was recorded" : "; there are " + known))
                              .c_str());
  }
};

void bind_recorder(nb::module_& m) {
  nb::class_<heed::RecordedAttention>(m, "RecordedAttention")
      .def_prop_ro("name", [](const heed::RecordedAttention& a) { return a.place.name; })
      .def_prop_ro("kind", [](const heed::RecordedAttention& a) { return a.place.kind; })
      .def_prop_ro("layer", [](const heed::RecordedAttention& a) { return a.place.layer; })
      .def_prop_ro("heads", &heed::RecordedAttention::heads)
      .def_prop_ro("queries", &heed::RecordedAttention::queries)
      .def_prop_ro("keys", &heed::RecordedAttention::keys)
      .def_prop_ro("batch", &heed::RecordedAttention::batch)
      .def(
          "weights",
          [](const heed::RecordedAttention& a, int64_t sequence, std::optional<int64_t> head) {
            const nb::gil_scoped_release release;
            return head ? a.record.weights(sequence, *head) : a.record.all_weights()[sequence];
          },
          "sequence"_a = 0, "head"_a.none() = nb::none())
      .def(
          "pattern",
          [](const heed::RecordedAttention& a, int64_t sequence, int64_t head) {
            return heed::name_of_pattern(a.patterns(sequence, head));
          },
          "sequence"_a = 0, "head"_a = 0)
      .def("value_weighted", &heed::RecordedAttention::value_weighted, "sequence"_a, "head"_a);
  nb::class_<PyRecorder>(m, "Recorder", nb::dynamic_attr(),
                         "What models computed inside a `with` block.")
      .def(
          "__init__",
          [](PyRecorder* self, const std::vector<std::string>& activations, bool no_causal,
             const std::vector<std::pair<int64_t, int64_t>>& ablate) {
            new (self) PyRecorder();
            self->options.activations = activations;
            self->options.no_causal = no_causal;
            for (const auto& [layer, head] : ablate) {
              self->options.heads.push_back({layer, head, 0.0, ""});
            }
          },
          "activations"_a = std::vector<std::string>{"*"}, "no_causal"_a = false,
          "ablate"_a = std::vector<std::pair<int64_t, int64_t>>{})
      .def(
          "__enter__",
          [](nb::object self) {
            auto& here = nb::cast<PyRecorder&>(self);
            here.recorder = std::make_unique<heed::Recorder>(here.options);
            return self;
          },
          nb::sig("def __enter__(self) -> Recorder"))
      .def(
          "__exit__", [](PyRecorder& self, const nb::args&) { self.leave(); },
          nb::sig("def __exit__(self, *args: object) -> None"))
      .def(
          "attention",
          [](const PyRecorder& self, int64_t layer, std::optional<int64_t> head,
             const std::string& kind, int64_t sequence) {
            const heed::RecordedAttention& found = self.at(kind, layer);
            return numpy_from(head ? found.record.weights(sequence, *head)
                                   : found.record.all_weights()[sequence]);
          },
          "layer"_a, "head"_a.none() = nb::none(), "kind"_a = "self", "sequence"_a = 0,
          nb::sig("def attention(self, layer: int, head: int | None = None, kind: str = 'self', "
                  "sequence: int = 0) -> numpy.typing.NDArray[numpy.float32]"),
          "The weights that the pass used: [Tq, Tk] of a head, [heads, Tq, Tk] of all.")
      .def_prop_ro("attentions", &PyRecorder::recorded, "Every attention of the pass, in order.")
      .def_prop_ro(
          "activations",
          [](const PyRecorder& self) {
            nb::dict made;
            const auto& all = self.recorder ? self.recorder->activations() : self.activations;
            for (const auto& [name, tensor] : all) {
              made[name.c_str()] = numpy_from(tensor);
            }
            return made;
          },
          nb::sig("def activations(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"),
          "Activations by TransformerLens's hook names.");
}

}  // namespace

void bind_models(nb::module_& m) {
  bind_model(m);
  bind_recorder(m);
}

}  // namespace heed_python
