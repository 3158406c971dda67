#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "heed/command.h"
#include "heed/generate.h"
#include "heed/io.h"
#include "heed/open.h"

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
  nlohmann::ordered_json line{{"text", text}};
  for (const Hypothesis& hypothesis : found) {
    line["translations"].push_back({{"text", text_of(opened, hypothesis)},
                                    {"score", hypothesis.score},
                                    {"ids", hypothesis.ids}});
  }
  print(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
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

std::function<int()> setup(CLI::App& app, const Common& common) {
  auto o = std::make_shared<Options>();
  app.add_option("model", o->model, "Model folder or run folder of an encoder-decoder")->required();
  app.add_option("--text", o->texts, "Text; may be given several times (default: lines of stdin)");
  app.add_option("--tokenizer", o->tokenizer, "Tokenizer file, where none lies with the model");
  app.add_option("--beam-size", o->beam.beams, "Beams; 1 is greedy")
      ->check(CLI::Range(int64_t{1}, int64_t{64}))
      ->capture_default_str();
  app.add_option("--n-best", o->beam.n_best, "Translations of each line, with their scores")
      ->check(CLI::Range(int64_t{1}, int64_t{64}))
      ->capture_default_str();
  app.add_option("--length-penalty", o->beam.length_penalty, "Above 0: longer is better")
      ->capture_default_str();
  app.add_option("--max-tokens", o->beam.max_tokens, "Most tokens of a translation")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  return [o, &common] { return run(*o, common); };
}

const Registration kRegistration{{"translate",
                                  "Translate lines with an encoder-decoder",
                                  {"heed translate run --text \"A man sits on a bench.\"",
                                   "heed translate run --beam-size 4 < input.en > output.de"},
                                  setup}};

}  // namespace
}  // namespace heed::app
