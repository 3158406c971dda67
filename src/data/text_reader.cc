#include "data/text_reader.h"

#include <set>

#include "base/check.h"
#include "base/language.h"
#include "data/block_reader.h"
#include "data/sources.h"

namespace heed {
namespace {

using std::filesystem::path;

bool visit_plain(const path& file, const TextVisitor& visitor, const BytesDone& done) {
  PieceReader reader(file);
  std::string piece;
  while (reader.next(piece)) {
    if (!visitor.text(piece)) {
      return false;
    }
    done(reader.done());
  }
  if (reader.done() > 0) {
    visitor.document_end();
  }
  return true;
}

bool visit_column(const path& file, const std::string& field, const TextVisitor& visitor,
                  const BytesDone& done) {
  const auto table = open_table(file, {field});
  std::vector<std::string> row;
  while (table->next(row)) {
    if (row[0].empty()) {
      continue;
    }
    if (!visitor.text(std::move(row[0]))) {
      return false;
    }
    visitor.document_end();
    done(table->done());
  }
  return true;
}

void visit_lines(const path& source_file, const path& target_file,
                 const std::function<bool(TextPair)>& visit, const BytesDone& done) {
  LineReader sources(source_file);
  LineReader targets(target_file);
  std::string_view source;
  std::string_view target;
  for (;;) {
    const bool more = sources.next(source);
    const bool both = targets.next(target);
    check_data(more == both, more ? source_file.string() : target_file.string(),
               "has more lines than the other file, which ends after line {}",
               more ? targets.line() : sources.line());
    if (!more) {
      return;
    }
    if (!source.empty() && !target.empty() && !visit({std::string(source), std::string(target)})) {
      return;
    }
    done(sources.done() + targets.done());
  }
}

/// Without a header the column with fewer different values among the first rows is the label.
bool label_comes_second(const path& file, const std::vector<std::string>& columns) {
  constexpr int kRows = 1000;
  const auto table = open_table(file, columns);
  if (table->has_header()) {
    return false;
  }
  std::set<std::string> values[2];
  std::vector<std::string> row;
  for (int i = 0; i < kRows && table->next(row); ++i) {
    values[0].insert(row[0]);
    values[1].insert(row[1]);
  }
  return values[1].size() < values[0].size();
}

const BytesDone& or_nothing(const BytesDone& done) {
  static const BytesDone nothing = [](int64_t) {};
  return done ? done : nothing;
}

path one_table(const std::string& data, std::string_view columns) {
  check_data(std::filesystem::exists(data), data, "there is no such file");
  check_data(is_table(data), data, "expected a .tsv, .csv or .jsonl file with {}", columns);
  return data;
}

}  // namespace

void visit_texts(const std::vector<path>& files, const DataOptions& options,
                 const TextVisitor& visitor, const BytesDone& done) {
  int64_t before = 0;
  for (const path& file : files) {
    const BytesDone here = [&](int64_t bytes) { or_nothing(done)(before + bytes); };
    const bool more = is_table(file) ? visit_column(file, options.text_field, visitor, here)
                                     : visit_plain(file, visitor, here);
    if (!more) {
      return;
    }
    before += total_bytes({file});
  }
}

void visit_pairs(const std::string& data, const DataOptions& options,
                 const std::function<bool(TextPair)>& visit, const BytesDone& done) {
  const std::vector<path> two = expand_two_files(data);
  if (!two.empty()) {
    visit_lines(two[0], two[1], visit, or_nothing(done));
    return;
  }
  const auto table = open_table(one_table(data, say("sources and targets")),
                                {options.source_field, options.target_field});
  std::vector<std::string> row;
  while (table->next(row)) {
    if (!row[0].empty() && !row[1].empty() && !visit({row[0], row[1]})) {
      return;
    }
    or_nothing(done)(table->done());
  }
}

void visit_labelled(const std::string& data, const DataOptions& options,
                    const std::function<bool(LabelledText, const TableReader&)>& visit,
                    const BytesDone& done) {
  const path file = one_table(data, say("labels and texts"));
  const std::vector<std::string> columns = {options.label_field, options.text_field};
  const bool swapped = label_comes_second(file, columns);
  const auto table = open_table(file, columns);
  std::vector<std::string> row;
  while (table->next(row)) {
    LabelledText example{std::move(row[swapped ? 1 : 0]), std::move(row[swapped ? 0 : 1])};
    check_data(!example.label.empty(), table->where(), "the label is empty");
    if (!example.text.empty() && !visit(std::move(example), *table)) {
      return;
    }
    or_nothing(done)(table->done());
  }
}

}  // namespace heed
