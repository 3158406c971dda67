#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/file.h"
#include "base/language.h"
#include "heed/command.h"
#include "heed/language.h"
#include "heed/lessons.h"
#include "heed/open.h"
#include "heed/picture.h"
#include "heed/serve.h"
#include "io/json_writer.h"
#include "train/progress_line.h"

namespace heed::app::quickstart_command {
namespace {

struct Options {
  std::string out = "quickstart";
  std::string language;
  uint64_t seed = 0;
};

constexpr int64_t kHeldOut = 1000;

/// How the program is called from here: by its name where the shell finds it, else by its path.
std::string program_name() { return std::filesystem::exists("build/heed") ? "build/heed" : "heed"; }

std::string next_steps(const std::string& folder, const std::string& sentence) {
  return tell(
      "Look at {0}/it-1.svg, or open {0}/attention.html in a browser. Next:\n"
      "  {2} inspect {0}/model --text \"{1}\"\n"
      "      the same model on a sentence of yours\n"
      "  {2} train --task lm --data README.md --tokenizer char --preset tiny --steps 300 --out "
      "run\n"
      "      a language model of your own text; then: {2} generate run --prompt heed\n"
      "  {2} inspect FOLDER --text \"…\" --format html -o page.html\n"
      "      a model folder from Hugging Face (gpt2, llama, bert, t5, marian, vit, …)\n"
      "  {2} --help\n      everything else",
      folder, sentence, program_name());
}

/// The attention from the query over one sentence, as a map of one row.
Heatmap sentence_map(const CoreferenceExample& example, const std::vector<double>& weights,
                     const std::string& language) {
  Heatmap map;
  set_language(map, language);
  map.title = example.text();
  const std::vector<float> values(weights.begin(), weights.end());
  map.panels.push_back({"", Tensor::from(values, {1, static_cast<int64_t>(values.size())})});
  map.row_labels = {example.words[static_cast<size_t>(example.query)]};
  map.column_labels = example.words;
  map.low = 0.0;
  map.high = 1.0;
  return map;
}

void write_pictures(const std::filesystem::path& folder, const std::vector<Heatmap>& maps) {
  for (size_t i = 0; i < maps.size(); ++i) {
    const std::string name = fmt::format("it-{}", i + 1);
    write_file_atomically(folder / (name + ".svg"), to_svg(maps[i]));
    write_file_atomically(folder / (name + ".png"), to_png(maps[i]));
  }
}

/// The explorer page with the first sentence inside, and one for each of the others.
void write_pages(const std::filesystem::path& folder, const CoreferenceReader& reader,
                 const std::vector<CoreferenceExample>& examples, const std::string& language) {
  ExplorerModel model;
  model.id = "quickstart";
  model.path = folder / "model";
  model.model = std::shared_ptr<const Model>(std::shared_ptr<void>(), reader.model.get());
  model.tokenizer = reader.tokenizer;
  for (size_t i = 0; i < examples.size(); ++i) {
    ExplorerFileOptions options;
    options.text = examples[i].text();
    options.ask = examples[i].words[static_cast<size_t>(examples[i].query)];
    options.language = language;
    const std::string name = i == 0 ? "attention.html" : fmt::format("attention-{}.html", i + 1);
    write_file_atomically(folder / name, explorer_file(model, options));
  }
}

int run(const Options& options, const Common& common) {
  const auto start = std::chrono::steady_clock::now();
  const std::string code(message_language());
  const Language language = parse_language(code);
  const std::filesystem::path folder = options.out;
  make_folder(folder);
  CoreferenceOptions settings;
  settings.language = language;
  settings.seed = options.seed;
  const bool talk = !common.quiet && !common.json;
  const std::vector<CoreferenceExample> tutorial = coreference_tutorial(language);
  if (talk) {
    print(
        tell("Training a small encoder on sentences like these, to find what \"it\" stands for …") +
        "\n");
    for (const CoreferenceExample& example : tutorial) {
      print("  " + example.text() + "\n");
    }
    print_now("\n");
  }
  ProgressLine line(common.quiet);
  const CoreferenceReader reader =
      train_coreference(settings, [&](const TrainProgress& progress) { line.show(progress); });
  line.finish();
  const CoreferenceScore score = score_coreference(reader, kHeldOut);
  std::vector<Heatmap> maps;
  for (const CoreferenceExample& example : tutorial) {
    const std::vector<double> weights = reader.weights(example);
    maps.push_back(sentence_map(example, weights, code));
    const auto best = std::max_element(weights.begin(), weights.end()) - weights.begin();
    if (talk) {
      TerminalOptions terminal;
      terminal.color = common.colors(STDOUT_FILENO) ? TerminalColor::full : TerminalColor::none;
      terminal.width = 100;
      print("\n" + to_terminal(maps.back(), terminal));
      print(tell("\"{}\" stands for: {}", example.words[static_cast<size_t>(example.query)],
                 example.words[static_cast<size_t>(best)]) +
            "\n");
    }
  }
  write_pictures(folder, maps);
  save_model(*reader.model, folder / "model");
  reader.tokenizer.save(folder / "model");
  write_pages(folder, reader, tutorial, code);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (common.json) {
    JsonWriter result;
    result.begin_object().field("accuracy", score.accuracy);
    result.field("pointing_accuracy", score.pointing).field("seconds", seconds);
    print(result.end_object().take() + "\n");
  } else {
    print("\n" +
          tell("{} sentences with noun pairs never seen in training: {:.1f} % answered right, the "
               "largest weight on the referent in {:.1f} %",
               kHeldOut, 100 * score.accuracy, 100 * score.pointing) +
          "\n");
    print(tell("Pictures, page and model are in {}/", options.out) + "\n\n");
    print(next_steps(options.out, tutorial.front().text()) + "\n");
  }
  return 0;
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  table.add("--out", &o->out, "Folder for pictures and model").file();
  table.add("--lang", &o->language, "Language (default: by the locale)").choices({"en", "ko"});
  table.add("--seed", &o->seed, "Seed of the dataset and the initial weights");
  return [o, &common] { return run(*o, common); };
}

const Registration kRegistration{{"quickstart",
                                  "Train a small Transformer to read \"it\" and see where it looks",
                                  {"heed quickstart", "heed quickstart --lang ko --out demo"},
                                  setup}};

}  // namespace
}  // namespace heed::app::quickstart_command
