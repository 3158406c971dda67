#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "heed/command.h"
#include "heed/error.h"
#include "heed/teaching.h"
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
  for (const TeachingSet& set : teaching_sets()) {
    if (!json) {
      fmt::print("{:<12} {}\n{:<12} writes {}\n", set.name, set.summary, "", set.format);
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

int run(const Options& options, const Common& common) {
  if (options.list) {
    list_sets(common.json);
    return 0;
  }
  if (options.name.empty()) {
    throw Error(ErrorKind::usage, "data: which set? `heed data --list` shows them");
  }
  TeachingOptions teaching;
  teaching.language = parse_language(options.language);
  teaching.seed = options.seed;
  teaching.held_out = options.held_out;
  if (options.output.empty()) {
    for (int64_t index = 0; index < options.count && std::ferror(stdout) == 0; ++index) {
      const auto line =
          teaching_line(options.name, teaching, static_cast<uint64_t>(index), common.json) + "\n";
      std::fwrite(line.data(), 1, line.size(), stdout);
    }
    return 0;
  }
  write_teaching_set(options.name, teaching, options.count, options.output);
  if (common.json) {
    fmt::print("{}\n", JsonWriter()
                           .begin_object()
                           .field("name", std::string_view(options.name))
                           .field("count", options.count)
                           .field("path", std::string_view(options.output))
                           .end_object()
                           .text());
  } else if (!common.quiet) {
    fmt::print(stderr, "wrote {} examples to {}\n", options.count, options.output);
  }
  return 0;
}

const Registration registration{{
    "data",
    "Make a teaching set",
    {"heed data coreference --count 20000 -o coreference.jsonl",
     "heed data dates --lang ko --count 5"},
    [](CLI::App& app, const Common& common) -> std::function<int()> {
      auto options = std::make_shared<Options>();
      app.add_option("name", options->name, "The set; see --list");
      app.add_flag("--list", options->list, "Show the sets there are");
      app.add_option("--count", options->count, "Examples to write")
          ->check(CLI::Range(int64_t{1}, int64_t{100'000'000}))
          ->capture_default_str();
      app.add_option("--seed", options->seed, "Another seed gives other examples")
          ->capture_default_str();
      app.add_option("--lang", options->language, "en or ko")
          ->check(CLI::IsMember({"en", "ko"}))
          ->capture_default_str();
      app.add_flag("--held-out", options->held_out,
                   "Examples to judge with: coreference with pairs of nouns that training lacks");
      app.add_option("-o,--output", options->output,
                     "File (.jsonl, .tsv) or folder to write; none: standard output");
      return [options, &common] { return run(*options, common); };
    },
}};

}  // namespace
}  // namespace heed::app
