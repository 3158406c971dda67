#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/language.h"
#include "base/print_message.h"
#include "heed/command.h"
#include "heed/lessons.h"
#include "heed/open.h"
#include "heed/runtime.h"
#include "io/json_writer.h"

namespace heed::app {
namespace {

struct Options {
  std::string name;
  std::string language = "en";
  std::string output;
  int64_t count = 10000;
  uint64_t seed = 0;
  bool held_out = false;
  bool list = false;
};

void list_sets(bool json) {
  JsonWriter writer;
  writer.begin_array();
  for (const SyntheticDataset& set : synthetic_datasets()) {
    if (!json) {
      fmt::print("{:<12} {}\n{:<12} {}\n", set.name, translate(set.summary), "",
                 tell("writes {}", translate(set.format)));
    }
    writer.begin_object()
        .field("name", std::string_view(set.name))
        .field("summary", std::string_view(set.summary))
        .field("format", std::string_view(set.format))
        .end_object();
  }
  if (json) {
    fmt::print("{}\n", writer.end_array().text());
  }
}

std::vector<std::string> set_names() {
  std::vector<std::string> names;
  for (const SyntheticDataset& set : synthetic_datasets()) {
    names.push_back(set.name);
  }
  return names;
}

int run(const Options& options, const Common& common) {
  if (options.list) {
    list_sets(common.json);
    return 0;
  }
  if (options.name.empty()) {
    fail(ErrorKind::usage, "data", "name a dataset; `heed data --list` shows them");
  }
  SyntheticOptions set;
  set.language = parse_language(options.language);
  set.seed = options.seed;
  set.held_out = options.held_out;
  if (options.output.empty()) {
    for (int64_t index = 0; index < options.count; ++index) {
      print(synthetic_line(options.name, set, static_cast<uint64_t>(index), common.json) + "\n");
    }
    return 0;
  }
  write_synthetic_dataset(options.name, set, options.count, options.output);
  if (common.json) {
    fmt::print("{}\n", JsonWriter()
                           .begin_object()
                           .field("name", std::string_view(options.name))
                           .field("count", options.count)
                           .field("path", std::string_view(options.output))
                           .end_object()
                           .text());
  } else if (!common.quiet) {
    print_message(tell("wrote {} examples to {}", options.count, options.output));
  }
  return 0;
}

const Registration registration{{
    "data",
    "Generate a synthetic dataset",
    {"heed data coreference --count 20000 -o coreference.jsonl",
     "heed data dates --lang ko --count 5"},
    [](OptionTable& table, const Common& common) -> std::function<int()> {
      auto options = std::make_shared<Options>();
      table.add("NAME", &options->name, "The dataset; see --list").choices(set_names());
      table.add("--list", &options->list, "List the datasets");
      table.add("--count", &options->count, "Examples to write").range(1, 100'000'000);
      table.add("--seed", &options->seed, "Another seed gives other examples");
      table.add("--lang", &options->language, "Language").choices({"en", "ko"});
      table.add("--held-out", &options->held_out,
                "Examples for evaluation: coreference with pairs of nouns that training lacks");
      table
          .add("-o,--output", &options->output,
               "File (.jsonl, .tsv) or folder to write (default: standard output)")
          .file();
      return [options, &common] { return run(*options, common); };
    },
}};

}  // namespace
}  // namespace heed::app
