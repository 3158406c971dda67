#include <fmt/format.h>

#include <cstdio>

#include "base/language.h"
#include "base/printable.h"
#include "draw/text_width.h"
#include "heed/command.h"
#include "heed/open.h"
#include "io/json_writer.h"
#include "models/memory.h"
#include "models/registry.h"

namespace heed::app {
namespace {

void print_json(const Model& model, const MemoryEstimate& memory) {
  JsonWriter json(2);
  json.begin_object()
      .field("model_type", model.model_type())
      .field("architecture", hugging_face_architecture(model))
      .field("parameters", model.parameter_count())
      .field("layers", model.num_layers())
      .field("heads", model.num_heads())
      .field("width", model.hidden_size())
      .field("vocabulary", model.vocab_size())
      .field("context", model.context_length());
  json.key("weights").begin_object();
  for (const auto& [type, bytes] : memory.weights_by_type) {
    json.field(type, bytes);
  }
  json.end_object();
  json.key("memory")
      .begin_object()
      .field("weights_bytes", memory.weights)
      .field("run_bytes", memory.run)
      .field("train_bytes", memory.train)
      .end_object();
  json.key("attention_memory").begin_array();
  for (const AttentionMemory& row : memory.attention) {
    json.begin_object()
        .field("length", row.length)
        .field("matrix_bytes", row.matrix)
        .field("flash_bytes", row.flash)
        .field("kv_cache_bytes", row.cache)
        .end_object();
  }
  json.end_array();
  json.key("unused_tensors").begin_array();
  for (const UnusedTensor& each : model.unused_tensors()) {
    json.begin_object().field("name", each.name).field("reason", each.reason).end_object();
  }
  json.end_array().end_object();
  std::puts(json.text().c_str());
}

/// 22713216 as "22,713,216".
std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<size_t>(at), ",");
  }
  return text;
}

/// The name of a line, padded so that values stand below each other.
std::string label(const std::string& name) { return fit(name, 14, Align::left); }

void print_text(const Model& model, const MemoryEstimate& memory) {
  const std::string name = hugging_face_architecture(model);
  fmt::print("{}{}{}\n", label(tell("architecture")), model.model_type(),
             name.empty() ? "" : " (" + name + ")");
  fmt::print("{}{}\n", label(tell("parameters")), grouped(model.parameter_count()));
  fmt::print("{}{}, {}, {}", label(tell("shape")),
             model.num_layers() == 1 ? tell("1 layer") : tell("{} layers", model.num_layers()),
             model.num_heads() == 1 ? tell("1 head") : tell("{} heads", model.num_heads()),
             tell("hidden size {}", model.hidden_size()));
  if (model.vocab_size() > 0) {
    fmt::print(", {}", tell("vocabulary {}", model.vocab_size()));
  }
  if (model.context_length() > 0) {
    fmt::print(", {}", tell("context {}", model.context_length()));
  }
  fmt::print("\n{}{}", label(tell("weights")), size_text(static_cast<double>(memory.weights)));
  std::string types;
  for (const auto& [type, bytes] : memory.weights_by_type) {
    const bool only = memory.weights_by_type.size() == 1;
    types += (types.empty() ? "" : ", ") +
             (only ? type : size_text(static_cast<double>(bytes)) + " " + type);
  }
  fmt::print(" ({})", types);
  fmt::print("\n{}{}\n", label(tell("to run")),
             tell("about {} (one sequence of {} positions)",
                  size_text(static_cast<double>(memory.run)), memory.length));
  fmt::print("{}{}\n", label(tell("to train")),
             tell("about {} (AdamW in f32, the same sequence)",
                  size_text(static_cast<double>(memory.train))));
  fmt::print("\n{}\n", tell("attention memory of one layer, one sequence, f32"));
  fmt::print("{}  {}  {}  {}\n", fit(tell("length"), 8, Align::right),
             fit(tell("whole matrix"), 14, Align::right), fit("heed", 12, Align::right),
             fit(tell("cache, all layers"), 20, Align::right));
  for (const AttentionMemory& row : memory.attention) {
    fmt::print("{:>8}  {:>14}  {:>12}  {:>20}\n", row.length,
               size_text(static_cast<double>(row.matrix)),
               size_text(static_cast<double>(row.flash)),
               row.cache > 0 ? size_text(static_cast<double>(row.cache)) : "-");
  }
}

/// Tensors of the file that are not read, one line for each.
void print_unused(const Model& model) {
  if (!model.unused_tensors().empty()) {
    fmt::print("\n{}\n", tell("tensors of the file that the model does not use"));
  }
  for (const UnusedTensor& each : model.unused_tensors()) {
    fmt::print("  {}: {}\n", printable(each.name), translate_message(printable(each.reason)));
  }
}

/// What heed opens, in groups by what the models do.
int list_families(bool json) {
  const std::pair<ModelKind, const char*> kinds[] = {
      {ModelKind::decoder, say("decoders (text generation)")},
      {ModelKind::encoder, say("encoders (embeddings, classification, masked words)")},
      {ModelKind::encoder_decoder, say("encoder-decoders (translation, summaries)")},
      {ModelKind::vision, say("vision (image classification)")},
      {ModelKind::image_text, say("images and texts (zero-shot classification)")},
      {ModelKind::vision_decoder, say("images to text (captions)")},
      {ModelKind::speech_decoder, say("speech to text")},
      {ModelKind::regressor, say("numbers")}};
  JsonWriter out(2);
  out.begin_array();
  for (const auto& [kind, name] : kinds) {
    std::vector<std::string> types;
    for (const ModelSpec* spec : model_specs()) {
      if (spec->kind == kind) {
        types.push_back(spec->model_type);
      }
    }
    if (json) {
      out.begin_object().field("group", name).field("model_types", types).end_object();
    } else {
      fmt::print("{}\n  {}\n", translate(name), fmt::join(types, ", "));
    }
  }
  if (json) {
    std::puts(out.end_array().text().c_str());
  }
  return 0;
}

int run(const std::string& path, const Common& common) {
  if (path.empty()) {
    return list_families(common.json);
  }
  const auto model = load_model(path);
  const MemoryEstimate memory = estimate_memory(*model);
  if (common.json) {
    print_json(*model, memory);
  } else {
    print_text(*model, memory);
    print_unused(*model);
  }
  return 0;
}

const Registration registration{
    {"info",
     "Show a model's architecture, size and memory needs",
     {"heed info gpt2/", "heed info stories260K.bin --json", "heed info"},
     [](OptionTable& table, const Common& common) -> std::function<int()> {
       auto model = std::make_shared<std::string>();
       table.add(
           "MODEL", &*model,
           "Model folder, run folder, .gguf or llama2.c .bin; without it, all model types are "
           "listed");
       return [model, &common] { return run(*model, common); };
     }}};

}  // namespace
}  // namespace heed::app
