#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/pair.h>

#include "module.h"

using namespace nanobind::literals;

namespace heed_python {
namespace {

/// Results of any pipeline as Python's own types, in the shapes of Hugging Face's; `options` is
/// JSON. `progress` (may be None) is called with the inputs done and the number of all.
nb::object run_pipeline(const heed::Pipeline& self, const std::vector<std::string>& inputs,
                        const std::string& options, const nb::object& progress) {
  heed::RunOptions run;
  if (!progress.is_none()) {
    run.progress = [&progress](int64_t done, int64_t total) {
      const nb::gil_scoped_acquire acquire;
      progress(done, total);
    };
  }
  const std::string json = interruptible([&](std::stop_token stop) {
    run.stop = stop;
    return self(inputs, heed::Json::parse(options, "options"), run).dump();
  });
  return python_from(json);
}

Tensor embed(const heed::Pipeline& self, const std::vector<std::string>& inputs) {
  return interruptible([&](std::stop_token stop) {
    heed::FeatureOptions options;
    options.run.stop = stop;
    return self.as<heed::FeatureExtraction>()(inputs, options);
  });
}

/// None stands for the end: a piece is never empty.
std::optional<nb::str> next_piece(heed::TextGenerationStream& self) {
  const std::optional<std::string> piece =
      interruptible([&](std::stop_token stop) { return self.next(stop); });
  return piece ? std::optional(python_text(*piece)) : std::nullopt;
}

nb::object generated(const heed::TextGenerationStream& self) {
  const heed::GeneratedText& result = self.result();
  nb::dict made;
  made["text"] = python_text(result.text);
  made["ids"] = result.ids;
  made["log_probabilities"] = result.log_probabilities;
  made["finish_reason"] = result.finish == heed::FinishReason::end_token ? "stop"
                          : result.finish == heed::FinishReason::length  ? "length"
                                                                         : "stopped";
  return made;
}

void bind_generation(nb::module_& m) {
  nb::class_<heed::TextGenerationStream>(m, "TextGenerationStream")
      .def("next", &next_piece)
      .def("result", &generated, nb::sig("def result(self) -> dict[str, typing.Any]"));
  nb::class_<heed::Pipeline>(m, "Pipeline")
      .def("run", &run_pipeline, "inputs"_a, "options"_a, "progress"_a.none(),
           nb::sig("def run(self, inputs: collections.abc.Sequence[str], options: str, "
                   "progress: typing.Any) -> typing.Any"))
      .def("embed", &embed, "inputs"_a)
      .def(
          "stream",
          [](const heed::Pipeline& self, const std::string& text, const std::string& options) {
            const nb::gil_scoped_release release;
            return heed::TextGenerationStream(self.as<heed::TextGeneration>(), text,
                                              heed::Json::parse(options, "options"));
          },
          "text"_a, "options"_a)
      .def_prop_ro("task", [](const heed::Pipeline& self) { return std::string(self.task()); })
      .def_prop_ro("path", [](const heed::Pipeline& self) { return self.loaded().path.string(); });
  m.def(
      "open_pipeline",
      [](const std::string& task, const std::filesystem::path& path) {
        const nb::gil_scoped_release release;
        return heed::pipeline(task, path);
      },
      "task"_a, "path"_a);
  m.def("pipeline_tasks", &heed::pipeline_tasks, "The task names that pipeline() knows.");
}

// Training ----------------------------------------------------------------------------------------

/// `progress` (may be None) is called after every step with its number, their number and the loss.
nb::dict train(const std::string& toml, const std::filesystem::path& out,
               const nb::object& progress) {
  heed::TrainOptions options;
  heed::parse_train_options(toml, "train()", options);
  options.out = out;
  options.quiet = true;
  heed::TrainCallbacks callbacks;
  if (!progress.is_none()) {
    callbacks.on_step = [&progress](const heed::TrainProgress& now) {
      const nb::gil_scoped_acquire acquire;
      try {
        progress(now.step, now.steps, now.loss);
      } catch (const nb::python_error& error) {  // Ctrl-C in here: the run has been told, and saves
        if (!error.matches(PyExc_KeyboardInterrupt)) {
          throw;
        }
      }
    };
  }
  // Ctrl-C: the run is saved, then KeyboardInterrupt is raised.
  const heed::TrainResult result = interruptible<Ends::by_itself>([&](std::stop_token stop) {
    callbacks.stop = stop;
    return heed::train(options, callbacks);
  });
  if (result.interrupted) {
    raise_interrupted();
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

// Serving -----------------------------------------------------------------------------------------

void bind_server(nb::module_& m) {
  nb::class_<heed::Server>(m, "Server")
      .def(
          "__init__",
          [](heed::Server* self, const std::vector<std::string>& models, const std::string& host,
             int port, const std::vector<std::string>& api_keys, bool page) {
            heed::ServeOptions options;
            options.models = models;
            options.host = host;
            options.port = port;
            options.api_keys = api_keys;
            options.page = page;
            new (self) heed::Server(std::move(options));
          },
          "models"_a, "host"_a, "port"_a, "api_keys"_a, "page"_a)
      .def("start",
           [](heed::Server& self) {
             interruptible([&](std::stop_token) {
               self.start();
               return true;
             });
           })
      .def_prop_ro("port", &heed::Server::port)
      .def_prop_ro("url", &heed::Server::url)
      .def(
          "stop",
          [](heed::Server& self, double seconds) {
            const nb::gil_scoped_release release;
            return self.stop(seconds);
          },
          "seconds"_a = 30.0);
}

}  // namespace

void bind_pipelines(nb::module_& m) {
  bind_generation(m);
  m.def("train", &train, "toml"_a, "out"_a, "progress"_a.none(),
        nb::sig("def train(toml: str, out: str | os.PathLike[str], progress: typing.Any) -> "
                "dict[str, typing.Any]"));
  bind_server(m);
}

}  // namespace heed_python
