#include <cstdio>
#include <optional>

#include "base/check.h"
#include "base/file.h"
#include "heed/command.h"
#include "heed/models.h"
#include "heed/text.h"
#include "io/gguf.h"
#include "models/gguf/model.h"
#include "text/gguf_vocabulary.h"

namespace heed::app {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string source;
  std::string destination;
  std::string type;
  std::string tokenizer;
};

bool is_gguf(const fs::path& path) { return path.extension() == ".gguf"; }

/// The matrices' own type, where no other is asked for: the quantised one where there is one (rows
/// that do not fit its blocks are of another type), else that of the first.
DType type_of(const Model& model, bool quantized_allowed) {
  std::optional<DType> first;
  for (const Parameter& parameter : model.parameters()) {
    const DType type = parameter.tensor.dtype();
    if (parameter.tensor.rank() == 2 && is_quantized(type)) {
      return quantized_allowed ? type : DType::f32;
    }
    if (parameter.tensor.rank() == 2 && !first) {
      first = type;
    }
  }
  return first.value_or(DType::f32);
}

/// Files beside the weights that are no part of the model but of its use.
void copy_companions(const fs::path& from, const fs::path& to) {
  for (const char* name :
       {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
        "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model", "source.spm",
        "target.spm", "generation_config.json", "preprocessor_config.json"}) {
    if (fs::is_regular_file(from / name)) {
      write_file_atomically(to / name, read_file(from / name));
    }
  }
}

/// The folder that holds the tokenizer of a model folder or run folder.
fs::path model_folder(const fs::path& path) {
  return fs::exists(path / "config.json") ? path : path / "model";
}

bool has_tokenizer(const fs::path& source) {
  if (is_gguf(source)) {
    return GgufFile(source).has("tokenizer.ggml.model");
  }
  for (const char* name :
       {"tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.model", "spiece.model"}) {
    if (fs::exists(model_folder(source) / name)) {
      return true;
    }
  }
  return false;
}

/// Where the vocabulary comes from; empty where there is none.
fs::path tokenizer_source(const Options& options) {
  if (!options.tokenizer.empty()) {
    return options.tokenizer;
  }
  const fs::path source = options.source;
  if (!fs::is_directory(source) && !is_gguf(source)) {
    return {};
  }
  return !has_tokenizer(source) ? fs::path() : is_gguf(source) ? source : model_folder(source);
}

void write_gguf(const Options& options, const Model& model, DType type) {
  GgufWriter writer;
  gguf::add_model(writer, model, type);
  const fs::path vocabulary = tokenizer_source(options);
  if (is_gguf(vocabulary)) {
    const GgufFile file(vocabulary);
    for (const auto& [key, value] : file.values()) {
      if (key.starts_with("tokenizer.") && key != "tokenizer.ggml.token_type_count") {
        writer.value(key, value);
      }
    }
  } else if (!vocabulary.empty()) {
    text::add_vocabulary(writer, Tokenizer::load(vocabulary), model.vocab_size());
  }
  writer.write(options.destination);
}

void write_folder(const Options& options, const Model& model, DType type) {
  save_model(model, options.destination, type);
  const fs::path vocabulary = tokenizer_source(options);
  if (fs::is_directory(options.source)) {
    copy_companions(model_folder(options.source), options.destination);
  }
  if (!vocabulary.empty() && !fs::exists(fs::path(options.destination) / "tokenizer.json")) {
    Tokenizer::load(vocabulary).save(options.destination);
  }
}

int run(const Options& options, const Common& common) {
  const auto model = load_model(options.source);
  const bool to_gguf = is_gguf(options.destination);
  const DType type =
      options.type.empty() ? type_of(*model, to_gguf) : dtype_from_name(options.type);
  if (!to_gguf && is_quantized(type)) {
    fail(ErrorKind::usage, "--dtype",
         "{} goes into a .gguf file only; a folder holds f32, f16 or bf16", options.type);
  }
  if (to_gguf) {
    write_gguf(options, *model, type);
  } else {
    write_folder(options, *model, type);
  }
  check_files_intact();
  if (common.json) {
    std::printf("{\"parameters\":%lld,\"dtype\":\"%s\"}\n",
                static_cast<long long>(model->parameter_count()),
                std::string(name_of(type)).c_str());
  } else if (!common.quiet) {
    std::fprintf(stderr, "%s: %s, %lld parameters in %s%s\n", options.destination.c_str(),
                 model->model_type().c_str(), static_cast<long long>(model->parameter_count()),
                 std::string(name_of(type)).c_str(),
                 tokenizer_source(options).empty() ? ", no tokenizer" : "");
  }
  return 0;
}

const Registration registration{
    {"convert",
     "Convert between a model folder and GGUF",
     {"heed convert gpt2/ gpt2.gguf --dtype q8_0", "heed convert stories.gguf stories/"},
     [](OptionTable& table, const Common& common) -> std::function<int()> {
       auto options = std::make_shared<Options>();
       table.add("SRC", &options->source, "Model folder, run folder, .gguf or llama2.c .bin")
           .required();
       table.add("DST", &options->destination, "A name that ends in .gguf, or a folder to write to")
           .required();
       table
           .add("--dtype", &options->type,
                "Type of the matrices (default: as they are); q8_0 and q4_0 are for GGUF only")
           .choices({"f32", "f16", "bf16", "q8_0", "q4_0"});
       table
           .add("--tokenizer", &options->tokenizer,
                "Tokenizer file or folder (default: the source's own)")
           .file();
       return [options, &common] { return run(*options, common); };
     }}};

}  // namespace
}  // namespace heed::app
