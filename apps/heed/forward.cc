#include "models/forward.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/printable.h"
#include "heed/command.h"
#include "heed/model_options.h"
#include "heed/open.h"
#include "io/json_writer.h"

namespace heed::app {
namespace {

struct Options {
  std::string model, adapter;
  std::string input;
  std::string output;
  ForwardWanted wanted;
};

void report(const TensorMap& tensors, const Common& common) {
  if (common.json) {
    JsonWriter json;
    json.begin_object();
    for (const auto& [name, tensor] : tensors) {
      json.field(name, std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end()));
    }
    json.end_object();
    std::puts(json.text().c_str());
  } else if (!common.quiet) {
    for (const auto& [name, tensor] : tensors) {
      print(fmt::format("{} {}\n", printable(name), tensor.shape().to_string()));
    }
  }
}

int run(const Options& options, const Common& common) {
  const auto model =
      load_model(options.model, {.trainable = options.wanted.grads, .adapter = options.adapter});
  const ModelInput input = model_input(load_safetensors(options.input), options.input);
  const TensorMap tensors = run_forward(*model, input, options.wanted);
  save_safetensors(options.output, tensors);
  report(tensors, common);
  return 0;
}

const Registration registration{
    {"forward",
     "Run one forward pass of a model on given tensors",
     {"heed forward gpt2/ --input in.safetensors --output out.safetensors",
      "heed forward bert/ --input in.safetensors --output out.safetensors --attentions --grads"},
     [](OptionTable& table, const Common& common) -> std::function<int()> {
       auto options = std::make_shared<Options>();
       table.add("MODEL", &options->model, "Model folder, run folder, .gguf or llama2.c .bin")
           .required();
       add_adapter(table, options->adapter);
       table
           .add("--input", &options->input,
                "Tensors by Hugging Face's names: input_ids, attention_mask, pixel_values, "
                "labels, …")
           .file()
           .required();
       table.add("--output", &options->output, "Where the results go, as safetensors")
           .file()
           .required();
       table.add("--attentions", &options->wanted.attentions,
                 "Add attentions.N [B, H, Tq, Tk] of every layer");
       table.add("--hidden-states", &options->wanted.hidden_states,
                 "Add hidden_states.N of every layer");
       table.add("--grads", &options->wanted.grads,
                 "Add the loss and grad.<parameter> of every parameter (labels given)");
       return [options, &common] { return run(*options, common); };
     }}};

}  // namespace
}  // namespace heed::app
