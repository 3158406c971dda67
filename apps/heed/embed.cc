#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "base/check.h"
#include "base/file.h"
#include "heed/command.h"
#include "heed/io.h"
#include "heed/lines.h"
#include "heed/model_options.h"
#include "heed/open.h"
#include "heed/ops.h"
#include "heed/pipelines.h"
#include "io/json_writer.h"

namespace heed::app::embed_command {
namespace {

struct Options {
  std::string model, tokenizer, adapter, pooling, format, output;
  std::vector<std::string> texts;
  bool raw = false, no_truncate = false;
  int64_t batch = 32;
};

constexpr int64_t kReadAhead = 16;  // batches read at once, so that like lengths go together

std::string format_of(const Options& options, const Common& common) {
  if (!options.format.empty()) {
    return options.format;
  }
  const std::filesystem::path file = options.output;
  return common.json                  ? "json"
         : file.extension() == ".npy" ? "npy"
         : file.extension() == ".csv" ? "csv"
                                      : "text";
}

/// One text's vector as a line of the format.
std::string line_of(const std::string& format, const std::string& text,
                    const std::vector<double>& vector, const std::string& error) {
  if (format == "json") {
    JsonWriter line;
    line.begin_object().field("text", text);
    if (!error.empty()) {
      line.field("error", error);
    } else if (!is_blank_line(text)) {
      line.field("embedding", vector);
    }
    return line.end_object().take() + "\n";
  }
  if (!error.empty() || is_blank_line(text)) {
    return "\n";
  }
  return fmt::format("{:.7g}\n", fmt::join(vector, format == "csv" ? "," : " "));
}

int run(const Options& options, const Common& common) {
  const std::string format = format_of(options, common);
  if (format == "npy" && options.output.empty()) {
    fail(ErrorKind::usage, "--format npy", "writes a file; name it with -o FILE");
  }
  const FeatureExtraction embed(
      options.model, {.tokenizer = options.tokenizer, .load = {.adapter = options.adapter}});
  FeatureOptions wanted;
  if (!options.pooling.empty()) {
    wanted.pooling = pooling_from_name(options.pooling);
  }
  if (options.raw) {
    wanted.normalize = false;
  }
  wanted.truncate = !options.no_truncate;
  std::unique_ptr<AtomicFile> file;
  if (!options.output.empty() && format != "npy") {
    file = std::make_unique<AtomicFile>(options.output);
  }
  std::vector<Tensor> all;
  Lines lines(options.texts, options.batch * kReadAhead, common);
  lines.for_each([&](const std::vector<std::string>& texts) {
    wanted.run = lines.run(options.batch);
    const Tensor vectors = embed(texts, wanted);
    if (format == "npy") {
      all.push_back(vectors);
      return;
    }
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::string line =
          line_of(format, texts[i], vectors[static_cast<int64_t>(i)].to_doubles(), lines.error(i));
      file ? file->write(line) : print(line);
    }
  });
  if (file) {
    file->commit();
  }
  if (format == "npy") {
    save_npy(options.output, all.empty() ? Tensor::zeros({0, embed.loaded().model->hidden_size()})
                                         : concat(all, 0));
  }
  return lines.exit_code();
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  table.add("MODEL", &o->model, "Model folder, run folder or .gguf of an encoder").required();
  table.add("--text", &o->texts, "Text; may be given several times (default: lines of stdin)");
  add_tokenizer(table, o->tokenizer);
  add_adapter(table, o->adapter);
  table
      .add("--pooling", &o->pooling,
           "mean or max of all tokens, cls: the first one, or pooler: the model's own, not scaled "
           "(default: "
           "as the model's modules.json says, else mean)")
      .choices({"mean", "cls", "max", "pooler"});
  table.add("--raw", &o->raw, "Do not scale to length 1");
  table.add("--no-truncate", &o->no_truncate,
            "Reject texts that are too long instead of truncating them");
  table.add("-o,--output", &o->output, "File to write, instead of stdout").file();
  table
      .add("--format", &o->format,
           "text: numbers with spaces; npy: one array [texts, size] (default: by the file's name)")
      .choices({"text", "csv", "json", "npy"});
  table.add("--batch", &o->batch, "Texts per batch").range(1, 4096);
  return [o, &common] { return run(*o, common); };
}

const Registration kRegistration{{"embed",
                                  "Turn texts into vectors with an encoder",
                                  {"heed embed minilm --text \"A cat sat.\"",
                                   "heed embed minilm -o vectors.npy < sentences.txt"},
                                  setup}};

}  // namespace
}  // namespace heed::app::embed_command
