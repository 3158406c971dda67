#include "data/sources.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/check.h"
#include "base/checksum.h"
#include "base/file.h"
#include "base/folder_entries.h"
#include "text/tokenizer_impl.h"

namespace heed {
namespace {

using std::filesystem::path;

/// The names in a list; a name that is there as it stands may have commas itself.
std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  if (std::filesystem::exists(text)) {
    return {text};
  }
  size_t begin = 0;
  for (size_t end = text.find(','); end != std::string::npos; end = text.find(',', begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.push_back(text.substr(begin));
  std::erase(parts, "");
  return parts;
}

void add_folder(const path& folder, std::vector<path>& files) {
  const std::vector<path> below = files_below(folder);
  files.insert(files.end(), below.begin(), below.end());
}

/// Beginning, middle and end of a file: what most edits change along with its size.
uint64_t fingerprint_of_samples(const path& file, int64_t size, uint64_t seed) {
  constexpr int64_t kSample = 64 << 10;
  std::ifstream stream(file, std::ios::binary);
  std::string sample(kSample, '\0');
  for (const int64_t place : {int64_t{0}, size / 2, std::max<int64_t>(size - kSample, 0)}) {
    stream.clear();
    stream.seekg(place);
    stream.read(sample.data(), kSample);
    seed = fingerprint_of(sample.data(), static_cast<size_t>(stream.gcount()), seed);
  }
  return seed;
}

}  // namespace

std::vector<path> expand_files(const std::string& data) {
  std::vector<path> files;
  for (const std::string& part : split_at_commas(data)) {
    check_data(std::filesystem::exists(part), part, "there is no such file or folder");
    if (std::filesystem::is_directory(part)) {
      add_folder(part, files);
    } else {
      files.emplace_back(part);
    }
  }
  check_data(!files.empty(), data, "has no files");
  return files;
}

std::vector<path> expand_two_files(const std::string& data) {
  const size_t open = data.find('{');
  if (open != std::string::npos && data.ends_with('}')) {
    const std::string prefix = data.substr(0, open);
    const auto parts = split_at_commas(data.substr(open + 1, data.size() - open - 2));
    check_data(parts.size() == 2, data, "two names are wanted between the braces");
    return {prefix + parts[0], prefix + parts[1]};
  }
  const std::vector<std::string> parts = split_at_commas(data);
  check_data(parts.size() == 1 || parts.size() == 2, data,
             "names {} files; one table or two files of lines are wanted", parts.size());
  return parts.size() == 2 ? std::vector<path>{parts[0], parts[1]} : std::vector<path>{};
}

int64_t total_bytes(const std::vector<path>& files) {
  int64_t bytes = 0;
  for (const path& file : files) {
    std::error_code error;
    bytes += static_cast<int64_t>(std::filesystem::file_size(file, error));
    check_data(!error, file.string(), "{}", error.message());
  }
  return bytes;
}

namespace {

/// Of all bytes, a piece at a time: memory does not grow with the file.
uint64_t fingerprint_of_content(const path& file, uint64_t seed) {
  std::ifstream in(file, std::ios::binary);
  std::vector<char> piece(size_t{1} << 20);
  while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())) || in.gcount() > 0) {
    seed = fingerprint_of(piece.data(), static_cast<size_t>(in.gcount()), seed);
  }
  check_data(in.eof(), file.string(), "cannot be read");
  return seed;
}

}  // namespace

uint64_t fingerprint_of_files(const std::vector<path>& files, uint64_t seed) {
  for (const path& file : files) {
    // A copy on another machine is the same file. Where reading all of it would take long, its
    // time stands for what the samples miss.
    constexpr int64_t kReadWhole = int64_t{1} << 30;
    std::error_code error;
    int64_t facts[2] = {total_bytes({file}), 0};
    if (facts[0] > kReadWhole) {
      facts[1] = std::filesystem::last_write_time(file, error).time_since_epoch().count();
    }
    seed = fingerprint_of(facts, sizeof(facts), seed);
    seed = fingerprint_of(file.extension().string(), seed);
    seed = facts[0] > kReadWhole ? fingerprint_of_samples(file, facts[0], seed)
                                 : fingerprint_of_content(file, seed);
  }
  return seed;
}

uint64_t fingerprint_of_tokenizer(const Tokenizer& tokenizer, uint64_t seed) {
  for (int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    seed = fingerprint_of(tokenizer.id_to_token(id), seed);
  }
  return fingerprint_of(tokenizer.impl().document(), seed);
}

}  // namespace heed
