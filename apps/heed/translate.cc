#include <fmt/format.h>

#include <memory>

#include "base/check.h"
#include "heed/command.h"
#include "heed/generate.h"
#include "heed/io.h"
#include "heed/open.h"
#include "io/json_writer.h"

namespace heed::app {
namespace {

struct Options {
  std::string model, tokenizer;
  std::vector<std::string> texts;
  BeamOptions beam;
};

std::string text_of(const Opened& opened, const Hypothesis& hypothesis) {
  const std::vector<int32_t> ids(hypothesis.ids.begin(), hypothesis.ids.end());
  return opened.tokenizer.decode(ids, true);
}

void translate(const Opened& opened, const Options& options, const std::string& text, bool json) {
  Request request;
  request.encoder = encode_texts(opened, {text}).input;
  request.max_tokens = options.beam.max_tokens;
  request.end = generation_ids(*opened.model).end;
  const std::vector<Hypothesis> found = beam_search(*opened.model, request, options.beam);
  if (!json) {
    for (const Hypothesis& hypothesis : found) {
      print(options.beam.n_best == 1
                ? text_of(opened, hypothesis) + "\n"
                : fmt::format("{:.4f}\t{}\n", hypothesis.score, text_of(opened, hypothesis)));
    }
    return;
  }
  JsonWriter line;
  line.begin_object().field("text", text).key("translations").begin_array();
  for (const Hypothesis& hypothesis : found) {
    line.begin_object().field("text", text_of(opened, hypothesis));
    line.field("score", hypothesis.score).field("ids", hypothesis.ids).end_object();
  }
  print(line.end_array().end_object().take() + "\n");
}

int run(const Options& options, const Common& common) {
  const Opened opened = open_model(options.model, options.tokenizer);
  check(opened.model->kind() == ModelKind::encoder_decoder, "translate", "{} is no encoder-decoder",
        opened.model->model_type());
  for_each_batch(options.texts, 1, [&](const std::vector<std::string>& texts) {
    translate(opened, options, texts.front(), common.json);
  });
  check_files_intact();
  return 0;
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  table.add("model", &o->model, "Model folder or run folder of an encoder-decoder").required();
  table.add("--text", &o->texts, "Text; may be given several times (default: lines of stdin)");
  table.add("--tokenizer", &o->tokenizer, "Tokenizer file, where none lies with the model");
  table.add("--beam-size", &o->beam.beams, "Beams; 1 is greedy").range(1, 64);
  table.add("--n-best", &o->beam.n_best, "Translations of each line, with their scores")
      .range(1, 64);
  table.add("--length-penalty", &o->beam.length_penalty, "Above 0: longer is better");
  table.add("--max-tokens", &o->beam.max_tokens, "Most tokens of a translation").range(1, 1 << 20);
  return [o, &common] { return run(*o, common); };
}

const Registration kRegistration{{"translate",
                                  "Translate lines with an encoder-decoder",
                                  {"heed translate run --text \"A man sits on a bench.\"",
                                   "heed translate run --beam-size 4 < input.en > output.de"},
                                  setup}};

}  // namespace
}  // namespace heed::app
