#include <ctime>

#include "base/check.h"
#include "base/language.h"
#include "base/printable.h"
#include "data/token_cache.h"
#include "heed/command.h"
#include "heed/open.h"
#include "io/json_writer.h"

namespace heed::app {
namespace {

struct Options {
  bool clear = false;
};

std::string day_of(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  localtime_r(&time, &parts);
  char text[32] = {};
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

void print_json(const std::filesystem::path& folder, const std::vector<CachedFile>& files,
                uint64_t bytes) {
  JsonWriter json;
  json.begin_object().field("folder", folder.native()).field("bytes", bytes);
  json.field("limit", cache_limit()).key("files").begin_array();
  for (const CachedFile& file : files) {
    json.begin_object().field("name", file.path.filename().native()).field("bytes", file.bytes);
    json.field("last_used", file.last_used).end_object();
  }
  json.end_array().end_object();
  print(json.text() + "\n");
}

int run(const Options& options, const Common& common) {
  const std::filesystem::path folder = default_cache_folder();
  uint64_t freed = 0;
  if (options.clear && !folder.empty()) {
    remove_stale_temporaries(folder);
    freed = shrink_cache(folder, 0);
  }
  const std::vector<CachedFile> files =
      folder.empty() ? std::vector<CachedFile>() : cached_files(folder);
  uint64_t bytes = 0;
  for (const CachedFile& file : files) {
    bytes += file.bytes;
  }
  if (common.json) {
    print_json(folder, files, bytes);
    return 0;
  }
  if (folder.empty()) {
    print(tell("no cache: neither XDG_CACHE_HOME nor HOME is set\n"));
    return 0;
  }
  for (const CachedFile& file : files) {
    print(fmt::format("{:>10}  {}  {}\n", size_text(static_cast<double>(file.bytes)),
                      day_of(file.last_used), printable(file.path.filename().native())));
  }
  if (options.clear) {
    print(tell("removed {}\n", size_text(static_cast<double>(freed))));
  }
  print(tell("{}: {}, {} of at most {}\n", printable(folder.native()),
             files.size() == 1 ? tell("1 file") : tell("{} files", files.size()),
             size_text(static_cast<double>(bytes)), size_text(static_cast<double>(cache_limit()))));
  return 0;
}

Registration registration{{
    "cache",
    "Show or clear the cache of tokenized training data",
    {"heed cache", "heed cache --clear"},
    [](OptionTable& table, const Common& common) {
      auto options = std::make_shared<Options>();
      table.add("--clear", &options->clear, "Remove everything from the cache");
      return [options, &common] { return run(*options, common); };
    },
}};

}  // namespace
}  // namespace heed::app
