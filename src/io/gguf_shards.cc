#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"
#include "io/gguf.h"
#include "io/gguf_format.h"

namespace heed {
namespace {

constexpr int64_t kMostShards = 99'999;  // as many as five digits number
constexpr size_t kDigits = 5;

bool are_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::optional<std::filesystem::path> gguf::shard_path(const std::filesystem::path& path,
                                                      int64_t number) {
  constexpr std::string_view kEnd = ".gguf";
  constexpr std::string_view kOf = "-of-";
  constexpr size_t kTail = 1 + kDigits + kOf.size() + kDigits + kEnd.size();
  const std::string name = path.filename().string();
  if (name.size() <= kTail || !name.ends_with(kEnd)) {
    return {};
  }
  const std::string_view tail = std::string_view(name).substr(name.size() - kTail);
  if (tail[0] != '-' || !are_digits(tail.substr(1, kDigits)) ||
      tail.substr(1 + kDigits, kOf.size()) != kOf ||
      !are_digits(tail.substr(1 + kDigits + kOf.size(), kDigits))) {
    return {};
  }
  return path.parent_path() / fmt::format("{}-{:05}{}", name.substr(0, name.size() - kTail), number,
                                          tail.substr(1 + kDigits));
}

void GgufFile::add_shards() {
  const int64_t count = integer("split.count", 0, kMostShards);
  if (count <= 1) {
    return;
  }
  const auto name_of_shard = [&](int64_t number) {
    const auto path = gguf::shard_path(file(), number);
    check_data(path.has_value(), file(),
               "is one of {} files; its name must end in -00001-of-{:05}.gguf", count, count);
    return *path;
  };
  const auto check_number = [&](const GgufFile& shard, int64_t number) {
    check_data(shard.integer("split.no", 0, kMostShards) == number &&
                   shard.integer("split.count", 0, kMostShards) == count,
               shard.file(), "is not file {} of {}: split.no and split.count say otherwise",
               number + 1, count);
  };
  check_data(name_of_shard(1) == file() &&
                 name_of_shard(1).string().ends_with(fmt::format("-of-{:05}.gguf", count)),
             file(), "split.count is {}; the file's name says otherwise", count);
  check_number(*this, 0);
  for (int64_t number = 1; number < count; ++number) {
    const std::filesystem::path path = name_of_shard(number + 1);
    check_data(std::filesystem::exists(path), file(), "is one of {} files; {} is missing", count,
               path.filename().string());
    const GgufFile shard(path, OneFile());
    check_number(shard, number);
    for (const auto& [name, tensor] : shard.tensors_) {
      check_data(tensors_.emplace(name, tensor).second, shard.file(),
                 "tensor {} is in another file of this model, too", quote(name));
    }
  }
  if (has("split.tensors.count")) {
    const int64_t expected = integer("split.tensors.count", 0, int64_t{1} << 31);
    check_data(expected == static_cast<int64_t>(tensors_.size()), file(),
               "split.tensors.count is {}; the {} files hold {} tensors", expected, count,
               tensors_.size());
  }
}

}  // namespace heed
