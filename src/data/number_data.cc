#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/utf8.h"
#include "data/block_reader.h"
#include "data/table.h"
#include "heed/data.h"
#include "heed/io.h"

namespace heed {
namespace {

using std::filesystem::path;

/// "1 2.5 -3" or "[1, 2.5, -3]".
std::vector<float> parse_numbers(std::string_view text, const std::string& where) {
  std::vector<float> numbers;
  const char* next = text.data();
  const char* end = next + text.size();
  while (next < end) {
    if (*next == ' ' || *next == ',' || *next == '[' || *next == ']') {
      ++next;
      continue;
    }
    float number = 0;
    const auto [after, error] = std::from_chars(next, end, number);
    check_data(error == std::errc() && std::isfinite(number), where, "{} is no number",
               quote(std::string_view(next, static_cast<size_t>(end - next)), 20));
    numbers.push_back(number);
    next = after;
  }
  check_data(!numbers.empty(), where, "has no numbers");
  return numbers;
}

Tensor stack(const std::vector<float>& numbers, int64_t rows) {
  return Tensor::from(numbers, {rows, static_cast<int64_t>(numbers.size()) / rows, 1});
}

std::vector<std::string> read_lines(const path& file) {
  LineReader reader(file);
  std::vector<std::string> lines;
  std::string_view line;
  while (reader.next(line)) {
    lines.emplace_back(line);
  }
  return lines;
}

}  // namespace

NumberData load_numbers(const std::string& data) {
  check_data(is_table(data), data, "a .jsonl, .tsv or .csv file with input and target is wanted");
  const auto table = open_table(data, {"input", "target"});
  std::vector<float> all[2];
  size_t lengths[2] = {};
  int64_t rows = 0;
  std::vector<std::string> row;
  for (; table->next(row); ++rows) {
    for (size_t side = 0; side < 2; ++side) {
      const std::vector<float> numbers = parse_numbers(row[side], table->where());
      check_data(rows == 0 || numbers.size() == lengths[side], table->where(),
                 "has {} numbers where the rows before have {}", numbers.size(), lengths[side]);
      lengths[side] = numbers.size();
      all[side].insert(all[side].end(), numbers.begin(), numbers.end());
    }
  }
  check_data(rows > 0, data, "has no rows");
  return {stack(all[0], rows), stack(all[1], rows)};
}

FeatureData load_features(const std::string& data) {
  const TensorMap tensors = load_safetensors(data);
  const auto found = tensors.find("features");
  check_data(found != tensors.end(), data, "has no tensor 'features'");
  FeatureData result;
  result.features = found->second;
  check_data(result.features.rank() == 3 && is_floating(result.features.dtype()) &&
                 result.features.numel() > 0,
             data, "tensor 'features' is {} {}; floats [images, regions, width] are wanted",
             name_of(result.features.dtype()), result.features.shape());
  for (const char* ending : {".tsv", ".txt"}) {
    const path captions = path(data).replace_extension(ending);
    if (!std::filesystem::exists(captions)) {
      continue;
    }
    result.captions = read_lines(captions);
    check_data(static_cast<int64_t>(result.captions.size()) == result.features.size(0),
               captions.string(), "has {} lines for {} images", result.captions.size(),
               result.features.size(0));
    return result;
  }
  fail(ErrorKind::data, data, "has no captions beside it; a .txt of the same name is wanted");
}

}  // namespace heed
