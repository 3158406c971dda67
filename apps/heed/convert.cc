#include <cstdio>
#include <optional>

#include "base/check.h"
#include "base/file.h"
#include "base/language.h"
#include "base/print_message.h"
#include "heed/command.h"
#include "heed/model_options.h"
#include "heed/models.h"
#include "heed/progress.h"
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
  std::string importance;
  std::string adapter;
  bool merge = false;
};

bool is_gguf(const fs::path& path) { return path.extension() == ".gguf"; }

/// The type of a folder's matrices, where no other is asked for: that of the first; f32 for
/// quantised ones.
DType type_of(const Model& model) {
  for (const Parameter& parameter : model.parameters()) {
    if (parameter.tensor.rank() == 2) {
      const DType type = parameter.tensor.dtype();
      return is_quantized(type) ? DType::f32 : type;
    }
  }
  return DType::f32;
}

/// Files beside the weights that are no part of the model but of its use.
void copy_companions(const fs::path& from, const fs::path& to) {
  for (const char* name :
       {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
        "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model", "source.spm",
        "target.spm", "generation_config.json", "preprocessor_config.json",
        "chat_template.jinja"}) {
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

/// Returns the name of the type that most weights are written in.
std::string write_gguf(const Options& options, const Model& model, const Common& common) {
  gguf::StoredTypes types =
      options.type.empty() ? gguf::StoredTypes() : gguf::StoredTypes::named(options.type);
  if (!options.importance.empty()) {
    types.set_importance(gguf::read_importance(options.importance));
  }
  GgufWriter writer;
  {
    ProgressBar bar(tell("converting"), common, say("parameters"));
    gguf::add_model(writer, model, types,
                    [&bar](int64_t done, int64_t total) { bar(done, total); });
  }
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
    const auto chat = fs::is_directory(vocabulary) ? ChatTemplate::find(vocabulary) : std::nullopt;
    if (chat) {
      writer.string("tokenizer.chat_template", chat->source());
    }
  }
  writer.write(options.destination);
  return types.name(model);
}

void write_folder(const Options& options, const Model& model, DType type, const Common& common) {
  {
    ProgressBar bar(tell("converting"), common, say("parameters"));
    save_model(model, options.destination, type,
               [&bar](int64_t done, int64_t total) { bar(done, total); });
  }
  const fs::path vocabulary = tokenizer_source(options);
  if (fs::is_directory(options.source)) {
    copy_companions(model_folder(options.source), options.destination);
  }
  if (!vocabulary.empty() && !fs::exists(fs::path(options.destination) / "tokenizer.json")) {
    Tokenizer::load(vocabulary).save(options.destination);
  }
  const fs::path chat_file = fs::path(options.destination) / "chat_template.jinja";
  if (is_gguf(vocabulary) && !fs::exists(chat_file)) {
    if (const auto chat = ChatTemplate::find(vocabulary)) {
      write_file_atomically(chat_file, chat->source());
    }
  }
}

int run(const Options& given, const Common& common) {
  Options options = given;
  auto model = load_model(options.source, {.adapter = options.adapter});
  options.source = base_model_path(options.source).native();
  if (!model->adapted_layers().empty()) {
    if (!options.merge) {
      fail(ErrorKind::usage, "convert",
           "an adapter is no part of a converted model; --merge adds it to the weights");
    }
    model = merge_adapter(*model);
  } else if (options.merge) {
    fail(ErrorKind::usage, "--merge", "{} has no adapter; name one with --adapter", given.source);
  }
  const bool to_gguf = is_gguf(options.destination);
  std::string type = options.type;
  if (to_gguf) {
    type = write_gguf(options, *model, common);
  } else {
    if (type != "" && type != "f32" && type != "f16" && type != "bf16") {
      fail(ErrorKind::usage, "--dtype",
           "{} goes into a .gguf file only; a folder holds f32, f16 or bf16", type);
    }
    const DType folder_type = type.empty() ? type_of(*model) : dtype_from_name(type);
    type = name_of(folder_type);
    write_folder(options, *model, folder_type, common);
  }
  check_files_intact();
  if (common.json) {
    std::printf("{\"parameters\":%lld,\"dtype\":\"%s\"}\n",
                static_cast<long long>(model->parameter_count()), type.c_str());
  } else if (!common.quiet) {
    print_message(tell("{}: {}, {} parameters in {}", options.destination, model->model_type(),
                       model->parameter_count(), type) +
                  (tokenizer_source(options).empty() ? tell(", no tokenizer") : ""));
  }
  return 0;
}

const Registration registration{
    {"convert",
     "Convert between a model folder and GGUF",
     {"heed convert gpt2/ gpt2.gguf --dtype q4_k_m", "heed convert stories.gguf stories/"},
     [](OptionTable& table, const Common& common) -> std::function<int()> {
       auto options = std::make_shared<Options>();
       table.add("SRC", &options->source, "Model folder, run folder, .gguf or llama2.c .bin")
           .required();
       table.add("DST", &options->destination, "A name that ends in .gguf, or a folder to write to")
           .required()
           .file();
       table
           .add("--dtype", &options->type,
                "Type of the matrices (default: as they are); quantized types are for GGUF only")
           .choices(gguf::StoredTypes::names());
       table
           .add("--imatrix", &options->importance,
                "Importance matrix (llama.cpp's GGUF) that weighs the errors of quantising")
           .file();
       add_adapter(table, options->adapter);
       table.add("--merge", &options->merge, "Add the adapter's updates to the weights");
       table
           .add("--tokenizer", &options->tokenizer,
                "Tokenizer file or folder (default: the source's own)")
           .file();
       return [options, &common] { return run(*options, common); };
     }}};

}  // namespace
}  // namespace heed::app
