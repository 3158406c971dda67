#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <memory>

#include "base/check.h"
#include "base/file.h"
#include "heed/command.h"
#include "heed/generate.h"
#include "heed/io.h"
#include "heed/open.h"
#include "io/json_writer.h"

namespace heed::app {
namespace {

struct Options {
  std::string model, tokenizer;
  std::string text;
  int64_t context = 0, stride = 0;
};

std::string text_of(const Options& options) {
  if (!options.text.empty()) {
    return read_file(options.text);
  }
  std::string text;
  for_each_line([&](const std::string& line) { text += line + "\n"; });
  return text;
}

int run(const Options& options, const Common& common) {
  const Opened opened = open_model(options.model, options.tokenizer);
  const std::string text = text_of(options);
  const std::vector<int32_t> encoded = opened.tokenizer.encode_ids(text, true);
  const std::vector<int64_t> ids(encoded.begin(), encoded.end());
  check_data(ids.size() >= 2, options.text.empty() ? "stdin" : options.text,
             "has {} tokens; at least 2 are needed", ids.size());
  const auto start = std::chrono::steady_clock::now();
  auto shown = start;
  const Perplexity result =
      perplexity(*opened.model, ids, options.context, options.stride, [&](int64_t done) {
        const auto now = std::chrono::steady_clock::now();
        if (!common.quiet && now - shown > std::chrono::seconds(5)) {
          shown = now;
          fmt::print(stderr, "{} of {} tokens\n", done, ids.size());
        }
      });
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double bits = result.loss * static_cast<double>(result.tokens) / std::log(2.0) /
                      static_cast<double>(text.size());
  if (common.json) {
    JsonWriter line;
    line.begin_object()
        .field("perplexity", result.value())
        .field("loss", result.loss)
        .field("bits_per_byte", bits)
        .field("tokens", result.tokens)
        .field("seconds", seconds);
    print(line.end_object().take() + "\n");
  } else {
    print(
        fmt::format("perplexity {:.4f}  (loss {:.5f} a token, {:.4f} bits a byte; {} tokens in "
                    "{:.1f} s)\n",
                    result.value(), result.loss, bits, result.tokens, seconds));
  }
  check_files_intact();
  return 0;
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  table.add("MODEL", &o->model, "Model folder, run folder, .gguf or llama2.c .bin").required();
  table.add("--text", &o->text, "Text file (default: stdin)").file();
  table.add("--tokenizer", &o->tokenizer, "Tokenizer file, if the model has none").file();
  table.add("--context", &o->context, "Tokens per window; 0: the model's context, at most 1024")
      .range(0, 1 << 20);
  table.add("--stride", &o->stride, "Tokens from one window to the next; 0: half a window")
      .range(0, 1 << 20);
  return [o, &common] { return run(*o, common); };
}

const Registration kRegistration{
    {"eval",
     "Perplexity of a language model on a text: what quantising costs",
     {"heed eval model.gguf --text wiki.test.raw", "heed eval run/ --text held-out.txt --json"},
     setup}};

}  // namespace
}  // namespace heed::app
