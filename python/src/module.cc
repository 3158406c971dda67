// The Python module: a thin layer over the public headers. No logic of its own beyond turning
// arrays into tensors and results into Python's own types.
#include <heed/heed.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using heed::Tensor;
using FloatArray = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using ByteArray = nb::ndarray<const uint8_t, nb::c_contig, nb::device::cpu>;

template <class Array>
heed::Shape shape_of(const Array& array) {
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < array.ndim(); ++i) {
    sizes.push_back(static_cast<int64_t>(array.shape(i)));
  }
  return heed::Shape(sizes);
}

/// A tensor over the array's own memory, which it keeps alive.
template <class Array>
Tensor borrow(const Array& array, heed::DType type) {
  auto owner = std::make_shared<Array>(array);
  return Tensor::borrow(array.data(), shape_of(array), type, owner);
}

/// The tensor's memory as an array, without a copy where it is contiguous.
nb::ndarray<nb::numpy, float> as_array(const Tensor& tensor) {
  auto* kept = new Tensor(tensor.detach().to(heed::DType::f32).contiguous());
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  std::vector<size_t> shape(kept->shape().begin(), kept->shape().end());
  return nb::ndarray<nb::numpy, float>(kept->data<float>(), shape.size(), shape.data(), owner);
}

nb::tuple attention(const FloatArray& q, const FloatArray& k, const FloatArray& v,
                    const std::optional<ByteArray>& mask, bool causal,
                    std::optional<double> scale) {
  heed::AttentionOptions options;
  if (mask) {
    options.mask = borrow(*mask, heed::DType::u8);
  }
  if (causal) {
    options.position = heed::Causal{};
  }
  options.scale = scale;
  const Tensor tq = borrow(q, heed::DType::f32), tk = borrow(k, heed::DType::f32),
               tv = borrow(v, heed::DType::f32);
  Tensor output, weights;
  {
    const nb::gil_scoped_release release;
    const heed::NoGrad no_grad;
    output = heed::attention(tq, tk, tv, options);
    // [T, D] and [B, T, D] stand for one head.
    const int missing = 4 - tq.rank();
    const auto four = [missing](const Tensor& x) {
      return missing == 2   ? heed::reshape(x, {1, 1, x.size(0), x.size(1)})
             : missing == 1 ? heed::reshape(x, {x.size(0), 1, x.size(1), x.size(2)})
                            : x;
    };
    heed::AttentionOptions wide = options;
    if (options.mask.defined() && missing == 1 && options.mask.rank() == 3) {
      wide.mask = heed::reshape(
          options.mask, {options.mask.size(0), 1, options.mask.size(1), options.mask.size(2)});
    }
    weights = heed::attention_steps(four(tq), four(tk), four(tv), wide).weights;
    if (missing == 2) {
      weights = heed::reshape(weights, {weights.size(2), weights.size(3)});
    } else if (missing == 1) {
      weights = heed::reshape(weights, {weights.size(0), weights.size(2), weights.size(3)});
    }
  }
  return nb::make_tuple(as_array(output), as_array(weights));
}

// Models ------------------------------------------------------------------------------------------

struct PyModel {
  heed::LoadedModel loaded;
  std::string path;
};

using IdRows = std::vector<std::vector<int64_t>>;

Tensor id_tensor(const IdRows& rows) {
  std::vector<int64_t> flat;
  for (const auto& row : rows) {
    if (row.size() != rows.front().size()) {
      throw nb::value_error("rows of different lengths; pad them and give attention_mask");
    }
    flat.insert(flat.end(), row.begin(), row.end());
  }
  const auto count = static_cast<int64_t>(rows.size());
  return Tensor::from(flat, {count, count == 0 ? 0 : static_cast<int64_t>(rows.front().size())});
}

nb::dict run_model(const PyModel& self, const std::optional<IdRows>& input_ids,
                   const std::optional<IdRows>& attention_mask,
                   const std::optional<IdRows>& token_type_ids,
                   const std::optional<IdRows>& decoder_input_ids,
                   const std::optional<FloatArray>& pixel_values,
                   const std::optional<IdRows>& labels) {
  heed::ModelInput input;
  const auto set = [](Tensor& place, const std::optional<IdRows>& rows) {
    if (rows) {
      place = id_tensor(*rows);
    }
  };
  set(input.input_ids, input_ids);
  set(input.attention_mask, attention_mask);
  set(input.token_type_ids, token_type_ids);
  set(input.decoder_input_ids, decoder_input_ids);
  set(input.labels, labels);
  if (pixel_values) {
    input.pixel_values = borrow(*pixel_values, heed::DType::f32);
  }
  heed::ModelOutput output;
  {
    // A recorder watches the thread that it was made on: the pass stays on this one.
    const heed::NoGrad no_grad;
    const nb::gil_scoped_release release;
    output = self.loaded.model->forward(input);
  }
  nb::dict result;
  const auto put = [&result](const char* name, const Tensor& tensor) {
    if (tensor.defined()) {
      result[name] = as_array(tensor);
    }
  };
  put("loss", output.loss);
  put("logits", output.logits);
  put("last_hidden_state", output.last_hidden_state);
  put("pooler_output", output.pooler_output);
  put("encoder_last_hidden_state", output.encoder_last_hidden_state);
  return result;
}

/// A recorder that watches from `__enter__` to `__exit__`.
struct PyRecorder {
  std::unique_ptr<heed::Recorder> recorder;
  std::vector<heed::RecordedAttention> attentions;
  std::map<std::string, Tensor> activations;
  void leave() {
    if (recorder) {
      attentions = recorder->attentions();
      activations = recorder->activations();
      recorder.reset();
    }
  }
};

// Pipelines ---------------------------------------------------------------------------------------

/// Results of any pipeline as Python's own types, in the shapes of Hugging Face's; `options` is
/// JSON.
nb::object run_pipeline(const heed::Pipeline& self, const std::vector<std::string>& inputs,
                        const std::string& options) {
  if (self.task() == heed::FeatureExtraction::kTask) {
    Tensor vectors;
    {
      const nb::gil_scoped_release release;
      vectors = self.as<heed::FeatureExtraction>()(inputs);
    }
    return nb::cast(as_array(vectors));
  }
  std::string json;
  {
    const nb::gil_scoped_release release;
    json = self(inputs, heed::Json::parse(options, "options")).dump();
  }
  return nb::module_::import_("json").attr("loads")(json);
}

/// Hands out pieces of text until `on_piece` returns false.
void stream_text(const heed::Pipeline& self, const std::string& text,
                 const std::function<bool(std::string)>& on_piece, int64_t max_new_tokens,
                 double temperature, uint64_t seed) {
  heed::GenerationOptions options;
  options.max_new_tokens = max_new_tokens;
  options.sampling.temperature = temperature;
  options.sampling.seed = seed;
  std::stop_source stop;
  options.run.stop = stop.get_token();
  const nb::gil_scoped_release release;
  self.as<heed::TextGeneration>()(text, options, [&](std::string_view piece) {
    const nb::gil_scoped_acquire acquire;
    if (!on_piece(std::string(piece))) {
      stop.request_stop();
    }
  });
}

nb::dict train(const std::string& toml, const std::string& out) {
  heed::TrainOptions options;
  heed::parse_train_options(toml, "train()", options);
  options.out = out;
  options.quiet = true;
  heed::TrainResult result;
  std::stop_source stop;
  heed::TrainCallbacks callbacks;
  callbacks.stop = stop.get_token();
  callbacks.on_step = [&](const heed::TrainProgress&) {  // Ctrl-C: the run is saved, then raised
    const nb::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) {
      stop.request_stop();
    }
  };
  {
    const nb::gil_scoped_release release;
    result = heed::train(options, callbacks);
  }
  if (PyErr_Occurred() != nullptr) {
    throw nb::python_error();
  }
  nb::dict made;
  made["steps"] = result.steps;
  made["loss"] = result.loss;
  made["val_loss"] = result.val_loss;
  for (const auto& [name, value] : result.metrics) {
    made[name.c_str()] = value;
  }
  return made;
}

nb::dict encoding_dict(const heed::Encoding& encoding) {
  nb::dict made;
  made["input_ids"] = encoding.ids;
  made["tokens"] = encoding.tokens;
  made["token_type_ids"] = encoding.type_ids;
  made["attention_mask"] = encoding.attention_mask;
  return made;
}

}  // namespace

NB_MODULE(_heed, m) {
  m.attr("__version__") = heed::version();
  nb::exception<heed::Error>(m, "Error");
  m.def("attention", &attention, "q"_a, "k"_a, "v"_a, "mask"_a.none(), "causal"_a,
        "scale"_a.none());
  m.def("set_num_threads", &heed::set_thread_count, "count"_a);

  nb::class_<heed::Tokenizer>(m, "Tokenizer", "Turns text into ids and back.")
      .def_static("load", [](const std::string& path) { return heed::Tokenizer::load(path); })
      .def(
          "encode",
          [](const heed::Tokenizer& self, const std::string& text, bool add_special_tokens) {
            return self.encode_ids(text, add_special_tokens);
          },
          "text"_a, "add_special_tokens"_a = true)
      .def(
          "__call__",
          [](const heed::Tokenizer& self, const std::string& text, bool add_special_tokens) {
            return encoding_dict(self.encode(text, add_special_tokens));
          },
          "text"_a, "add_special_tokens"_a = true)
      .def(
          "decode",
          [](const heed::Tokenizer& self, const std::vector<heed::TokenId>& ids,
             bool skip_special_tokens) { return self.decode(ids, skip_special_tokens); },
          "ids"_a, "skip_special_tokens"_a = true)
      .def_prop_ro("vocab_size", &heed::Tokenizer::vocab_size)
      .def("__len__", &heed::Tokenizer::vocab_size);

  nb::class_<PyModel>(m, "Model", "A model and its tokenizer; made by heed.load().")
      .def("__call__", &run_model, "input_ids"_a.none() = nb::none(),
           "attention_mask"_a.none() = nb::none(), "token_type_ids"_a.none() = nb::none(),
           "decoder_input_ids"_a.none() = nb::none(), "pixel_values"_a.none() = nb::none(),
           "labels"_a.none() = nb::none())
      .def_prop_ro("tokenizer", [](const PyModel& self) { return self.loaded.tokenizer; })
      .def_prop_ro("model_type",
                   [](const PyModel& self) { return self.loaded.model->model_type(); })
      .def_prop_ro("num_parameters",
                   [](const PyModel& self) { return self.loaded.model->parameter_count(); })
      .def_prop_ro("config",
                   [](const PyModel& self) {
                     return nb::module_::import_("json").attr("loads")(self.loaded.model->config());
                   })
      .def("parameters",
           [](const PyModel& self) {
             nb::dict made;
             for (const heed::Parameter& each : self.loaded.model->parameters()) {
               made[each.name.c_str()] = as_array(each.tensor);
             }
             return made;
           })
      .def("__repr__",
           [](const PyModel& self) {
             return "heed.Model(" + self.loaded.model->model_type() + ", " +
                    std::to_string(self.loaded.model->parameter_count()) + " parameters)";
           })
      .def("__reduce__", [](const PyModel& self) {
        return nb::make_tuple(nb::module_::import_("heed").attr("load"), nb::make_tuple(self.path));
      });
  m.def("load", [](const std::string& path) {
    const nb::gil_scoped_release release;
    return PyModel{heed::open_model(path), path};
  });

  nb::class_<PyRecorder>(m, "Recorder", "What models computed inside a `with` block.")
      .def("__init__", [](PyRecorder* self) { new (self) PyRecorder(); })
      .def(
          "__enter__",
          [](PyRecorder& self) -> PyRecorder& {
            self.recorder =
                std::make_unique<heed::Recorder>(heed::RecorderOptions{.activations = {"*"}});
            return self;
          },
          nb::rv_policy::reference)
      .def("__exit__", [](PyRecorder& self, const nb::args&) { self.leave(); })
      .def(
          "attention",
          [](const PyRecorder& self, int64_t layer, std::optional<int64_t> head,
             const std::string& kind, int64_t sequence) {
            for (const heed::RecordedAttention& each : self.attentions) {
              if (each.place.kind == kind && each.place.layer == layer) {
                if (head) {
                  return as_array(each.record.weights(sequence, *head));
                }
                return as_array(each.record.all_weights()[sequence]);
              }
            }
            throw nb::index_error(
                ("no attention of kind '" + kind + "' in layer " + std::to_string(layer)).c_str());
          },
          "layer"_a, "head"_a.none() = nb::none(), "kind"_a = "self", "sequence"_a = 0)
      .def_prop_ro("activations", [](const PyRecorder& self) {
        nb::dict made;
        for (const auto& [name, tensor] : self.activations) {
          made[name.c_str()] = as_array(tensor);
        }
        return made;
      });

  nb::class_<heed::Pipeline>(m, "Pipeline")
      .def("run", &run_pipeline, "inputs"_a, "options"_a = "{}")
      .def("stream", &stream_text, "text"_a, "on_piece"_a, "max_new_tokens"_a = 128,
           "temperature"_a = 0.0, "seed"_a = 0);
  m.def("open_pipeline", [](const std::string& task, const std::string& path) {
    const nb::gil_scoped_release release;
    return heed::pipeline(task, path);
  });
  m.def("pipeline_tasks", &heed::pipeline_tasks);
  m.def("train", &train);
}
