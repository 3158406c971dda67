#include <fmt/format.h>

#include <functional>

#include "base/check.h"
#include "base/file.h"
#include "base/language.h"
#include "base/utf8.h"
#include "heed/io.h"
#include "heed/lessons.h"
#include "io/json_writer.h"

namespace heed {
namespace {

using std::filesystem::path;

using LineWriter = std::function<std::string(uint64_t index)>;

bool ends_in(const path& path, std::string_view extension) { return path.extension() == extension; }

void write_lines(const path& path, int64_t count, const LineWriter& line) {
  AtomicFile file(path);
  std::string block;
  for (int64_t index = 0; index < count; ++index) {
    block += line(static_cast<uint64_t>(index)) + "\n";
    if (block.size() > (size_t{1} << 20)) {
      file.write(block);
      block.clear();
    }
  }
  file.write(block);
  file.commit();
}

std::string coreference_line(const CoreferenceExample& example, bool json) {
  if (!json) {
    return example.answer + "\t" + example.text();
  }
  return JsonWriter()
      .begin_object()
      .field("text", std::string_view(example.text()))
      .field("label", std::string_view(example.answer))
      .field("words", example.words)
      .field("query", example.query)
      .field("referent", example.referent)
      .field("candidates", example.candidates)
      .field("evidence", example.evidence)
      .end_object()
      .take();
}

std::string pair_line(const TextPair& pair, bool json) {
  if (!json) {
    return pair.source + "\t" + pair.target;
  }
  return JsonWriter()
      .begin_object()
      .field("source", std::string_view(pair.source))
      .field("target", std::string_view(pair.target))
      .end_object()
      .take();
}

std::string number_line(const NumberExample& example, bool json) {
  if (json) {
    return JsonWriter()
        .begin_object()
        .field("input", example.input)
        .field("target", example.target)
        .end_object()
        .take();
  }
  return fmt::format("{}\t{}", fmt::join(example.input, " "), fmt::join(example.target, " "));
}

void write_shapes(const SyntheticOptions& options, int64_t count, const path& folder) {
  make_folder(folder);
  write_lines(folder / "captions.tsv", count, [&](uint64_t index) {
    const ShapesExample example = shapes_example(options, index);
    const std::string name = fmt::format("{:05}.png", index);
    save_png(folder / name, example.pixels);
    return name + "\t" + example.caption;
  });
}

}  // namespace

Language parse_language(std::string_view code) {
  if (code == "ko") {
    return Language::korean;
  }
  if (code != "en") {
    fail(ErrorKind::usage, "language", "{} is not known; en and ko are", quote(code));
  }
  return Language::english;
}

const std::vector<SyntheticDataset>& synthetic_datasets() {
  static const std::vector<SyntheticDataset> sets = {
      {"coreference",
       say("what \"it\" means in \"The animal didn't cross the street because it …\""),
       say(".jsonl (text, label, words, query, referent, candidates) or .tsv (label, text)")},
      {"dates", say("\"March 9th, 2016\" to 2016-03-09"), say(".tsv or .jsonl (source, target)")},
      {"reverse", say("letters in reverse order"), say(".tsv or .jsonl (source, target)")},
      {"copy", say("letters as they are"), say(".tsv or .jsonl (source, target)")},
      {"addition", say("57+8 to 65"), say(".tsv or .jsonl (source, target)")},
      {"plus-two", say("[10,20,30,40,50] to [12,22,32,42,52]"),
       say(".jsonl or .tsv (input, target)")},
      {"shapes", say("drawings with \"a red circle left of a blue square\""),
       say("a folder of images with captions.tsv (file, caption)")},
  };
  return sets;
}

std::string synthetic_line(std::string_view name, const SyntheticOptions& options, uint64_t index,
                           bool json) {
  if (name == "coreference") {
    return coreference_line(coreference_example(options, index), json);
  }
  if (name == "dates") {
    return pair_line(date_example(options, index), json);
  }
  if (name == "reverse") {
    return pair_line(reverse_example(options, index), json);
  }
  if (name == "copy") {
    return pair_line(copy_example(options, index), json);
  }
  if (name == "addition") {
    return pair_line(addition_example(options, index), json);
  }
  if (name == "plus-two") {
    return number_line(plus_two_example(options, index), json);
  }
  if (name == "shapes") {
    fail(ErrorKind::usage, "data", "shapes are images; give a folder to write them to");
  }
  fail(ErrorKind::usage, "data",
       "there is no synthetic dataset {}; synthetic_datasets() lists them", quote(name));
}

void write_synthetic_dataset(std::string_view name, const SyntheticOptions& options, int64_t count,
                             const path& path) {
  if (name == "shapes") {
    write_shapes(options, count, path);
    return;
  }
  const bool json = ends_in(path, ".jsonl");
  if (!json && !ends_in(path, ".tsv")) {
    fail(ErrorKind::usage, path.string(), "the name must end in .jsonl or .tsv");
  }
  write_lines(path, count, [&](uint64_t i) { return synthetic_line(name, options, i, json); });
}

}  // namespace heed
