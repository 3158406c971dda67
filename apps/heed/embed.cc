#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "base/check.h"
#include "heed/command.h"
#include "heed/io.h"
#include "heed/open.h"
#include "io/json_writer.h"

namespace heed::app {
namespace {

struct Options {
  std::string model, tokenizer, pooling = "mean";
  std::vector<std::string> texts;
  bool raw = false;
  int64_t batch = 32;
};

/// One vector a text: the mean of its rows or the first one, of length 1 unless `raw`.
std::vector<std::vector<double>> embed(const Opened& opened, const Options& options,
                                       const std::vector<std::string>& texts) {
  const NoGrad no_grad;
  const TextBatch batch = encode_texts(opened, texts);
  const Tensor hidden = opened.model->forward(batch.input).last_hidden_state;
  check_suits(hidden.defined(), "embed", *opened.model, "use an encoder without a head");
  const int64_t width = hidden.size(2);
  std::vector<std::vector<double>> result;
  for (size_t i = 0; i < texts.size(); ++i) {
    const int64_t rows = options.pooling == "cls" ? 1 : batch.lengths[i];
    std::vector<double> vector(static_cast<size_t>(width), 0.0);
    const float* row = hidden.data<float>() + static_cast<int64_t>(i) * hidden.size(1) * width;
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t d = 0; d < width; ++d) {
        vector[static_cast<size_t>(d)] += row[t * width + d] / static_cast<double>(rows);
      }
    }
    double norm = 0.0;
    for (const double x : vector) {
      norm += x * x;
    }
    for (double& x : vector) {
      x /= options.raw || norm == 0.0 ? 1.0 : std::sqrt(norm);
    }
    result.push_back(std::move(vector));
  }
  return result;
}

int run(const Options& options, const Common& common) {
  const Opened opened = open_model(options.model, options.tokenizer);
  for_each_batch(options.texts, options.batch, [&](const std::vector<std::string>& texts) {
    const auto vectors = embed(opened, options, texts);
    for (size_t i = 0; i < texts.size(); ++i) {
      if (common.json) {
        JsonWriter line;
        line.begin_object().field("text", texts[i]).field("embedding", vectors[i]);
        print(line.end_object().take() + "\n");
      } else {
        print(fmt::format("{:.7g}\n", fmt::join(vectors[i], " ")));
      }
    }
  });
  check_files_intact();
  return 0;
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  table.add("MODEL", &o->model, "Model folder, run folder or .gguf of an encoder").required();
  table.add("--text", &o->texts, "Text; may be given several times (default: lines of stdin)");
  table.add("--tokenizer", &o->tokenizer, "Tokenizer file, where none lies with the model").file();
  table.add("--pooling", &o->pooling, "mean of all tokens, or cls: the first one")
      .choices({"mean", "cls"});
  table.add("--raw", &o->raw, "Do not scale to length 1");
  table.add("--batch", &o->batch, "Texts at a time").range(1, 4096);
  return [o, &common] { return run(*o, common); };
}

const Registration kRegistration{{"embed",
                                  "Turn texts into vectors with an encoder",
                                  {"heed embed minilm --text \"A cat sat.\"",
                                   "heed embed minilm --json < sentences.txt > vectors.jsonl"},
                                  setup}};

}  // namespace
}  // namespace heed::app
