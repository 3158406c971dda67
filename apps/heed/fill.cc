#include <fmt/format.h>

#include <memory>

#include "base/check.h"
#include "base/printable.h"
#include "heed/command.h"
#include "heed/lines.h"
#include "heed/model_options.h"
#include "heed/open.h"
#include "heed/pipelines.h"
#include "io/json_writer.h"

namespace heed::app::fill_command {
namespace {

struct Options {
  std::string model, tokenizer, adapter;
  std::vector<std::string> texts;
  int64_t top_k = 5, batch = 32;
};

constexpr int64_t kReadAhead = 16;  // batches read at once, so that like lengths go together

std::string json_line(const std::vector<MaskedToken>& masks) {
  JsonWriter line;
  line.begin_array();
  for (const MaskedToken& mask : masks) {
    line.begin_object().field("position", mask.position).key("candidates").begin_array();
    for (const MaskCandidate& each : mask.candidates) {
      line.begin_object().field("token", each.token).field("id", each.id);
      line.field("probability", each.probability).end_object();
    }
    line.end_array().end_object();
  }
  return line.end_array().take() + "\n";
}

/// A line per candidate; a blank line between masks, and for an input without any.
std::string plain_lines(const std::vector<MaskedToken>& masks) {
  std::string text;
  for (const MaskedToken& mask : masks) {
    for (const MaskCandidate& each : mask.candidates) {
      text += fmt::format("{}\t{:.4f}\n", printable(each.token), each.probability);
    }
    text += &mask == &masks.back() ? "" : "\n";
  }
  return masks.empty() ? "\n" : text;
}

int run(const Options& options, const Common& common) {
  const FillMask fill(options.model,
                      {.tokenizer = options.tokenizer, .load = {.adapter = options.adapter}});
  Lines lines(options.texts, options.batch * kReadAhead, common);
  bool first = true;
  lines.for_each([&](const std::vector<std::string>& texts) {
    const auto results = fill(texts, {.top_k = options.top_k, .run = lines.run(options.batch)});
    for (const std::vector<MaskedToken>& masks : results) {
      print(common.json ? json_line(masks) : (first ? "" : "\n") + plain_lines(masks));
      first = false;
    }
  });
  return lines.exit_code();
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  table.add("MODEL", &o->model, "Model folder or run folder of a masked language model")
      .required()
      .file();
  table.add("--text", &o->texts,
            "Text with [MASK] where a word is missing; may be given several times (default: lines "
            "of stdin)");
  table.add("--top-k", &o->top_k, "Candidates per mask").range(1, 1 << 20);
  add_tokenizer(table, o->tokenizer);
  add_adapter(table, o->adapter);
  table.add("--batch", &o->batch, "Texts per batch").range(1, 4096);
  return [o, &common] { return run(*o, common); };
}

const Registration kRegistration{{"fill",
                                  "Fill in the masked words of a text",
                                  {"heed fill bert --text \"the film was really [MASK]\"",
                                   "heed fill bert --top-k 10 --json < texts.txt"},
                                  setup}};

}  // namespace
}  // namespace heed::app::fill_command
