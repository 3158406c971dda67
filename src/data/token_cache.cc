#include "data/token_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "base/check.h"
#include "base/checksum.h"
#include "base/file.h"
#include "base/file_descriptor.h"
#include "base/folder_entries.h"
#include "base/language.h"
#include "base/output_file.h"
#include "base/print_message.h"
#include "base/utf8.h"
#include "data/sources.h"
#include "heed/io.h"
#include "io/json_writer.h"

namespace heed {
namespace {

using std::filesystem::path;

constexpr size_t kKeyDigits = 16;
constexpr uint64_t kDefaultLimit = uint64_t{20} << 30;
constexpr int64_t kFreshSeconds = 60;  // a temporary may not be locked yet right after its creation

std::string key_of(const path& file) { return file.filename().native().substr(0, kKeyDigits); }

/// "0123456789abcdef.tokens": nothing else in the folder is ours to remove.
bool is_cache_file(const path& file) {
  const std::string name = file.filename().native();
  return name.size() > kKeyDigits + 1 && name[kKeyDigits] == '.' &&
         name.find_first_not_of("0123456789abcdef") == kKeyDigits &&
         name.find(".tmp.") == std::string::npos;
}

/// Temporaries of AtomicFile, and `.tmp.PID.N` of earlier versions.
bool is_cache_temporary(const path& file) {
  const std::string name = file.filename().native();
  return name.size() > kKeyDigits && name.find_first_not_of("0123456789abcdef") == kKeyDigits &&
         name.find(".tmp.") != std::string::npos;
}

int64_t now_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Calls fn(path, stat) for the regular files of a folder; links are not followed.
template <class Fn>
void for_each_file(const path& folder, Fn&& fn) {
  std::error_code error;
  for (const path& entry : folder_entries(folder, error)) {
    struct stat info {};
    if (lstat(entry.c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
      fn(entry, info);
    }
  }
}

bool can_be_written(const path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return std::filesystem::is_directory(folder, error) && access(folder.c_str(), W_OK | X_OK) == 0;
}

path make_private_folder() {
  std::error_code error;
  path parent = std::filesystem::temp_directory_path(error);
  if (error) {
    parent = "/tmp";
  }
  std::string name = (parent / "heed-tokens-XXXXXX").native();
  check(mkdtemp(name.data()) != nullptr, name,
        "cannot be created, and there is no writable cache folder either; set XDG_CACHE_HOME to a "
        "folder that can be written");
  return name;
}

void mark_as_used(const path& file) { utimensat(AT_FDCWD, file.c_str(), nullptr, 0); }

void report_damage(const Error& error) {
  print_message(
      tell("heed: warning: {}; this cached file is rebuilt", translate_message(error.what())));
}

std::string checksum_of(const std::vector<std::string>& labels) {
  return fmt::format("{:08x}", crc32_of(JsonWriter().value(labels).text()));
}

}  // namespace

CacheKey::CacheKey(std::string_view kind, const std::vector<path>& files,
                   const DataOptions& options)
    : folder_(options.cache.empty() ? default_cache_folder() : options.cache),
      total_(total_bytes(files)),
      value_(fingerprint_of_files(files, fingerprint_of(kind))),
      progress_(options.progress) {
  temporary_ = folder_.empty() || !can_be_written(folder_);
  if (temporary_) {
    folder_ = make_private_folder();
  } else {
    remove_stale_temporaries(folder_);
  }
}

CacheKey::~CacheKey() {
  if (temporary_) {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
}

void CacheKey::add(std::string_view text) { value_ = fingerprint_of(text, value_); }
void CacheKey::add(const Tokenizer& tokenizer) {
  value_ = fingerprint_of_tokenizer(tokenizer, value_);
}

path CacheKey::file(std::string_view ending) const {
  return folder_ / fmt::format("{:016x}.{}", value_, ending);
}

/// Whether a file of the entry is there. heed made no link, FIFO or folder of that name: it is
/// removed, and nothing is read from it or written through it.
bool CacheKey::has(const path& file) const {
  struct stat info {};
  if (lstat(file.c_str(), &info) != 0) {
    return false;
  }
  if (S_ISREG(info.st_mode)) {
    return true;
  }
  print_message(
      tell("heed: warning: {} is not a regular file; this cached file is rebuilt", file.native()));
  std::error_code ignored;
  std::filesystem::remove(file, ignored);  // a link and not its target; no folder with contents
  return false;
}

TokenShard CacheKey::find(std::string_view ending) const {
  const path found = file(ending);
  if (!has(found)) {
    return {};
  }
  try {
    TokenShard shard = TokenShard::open(found);
    check_data(shard.fingerprint() == value_, found.native(), "belongs to other data");
    mark_as_used(found);
    return shard;
  } catch (const Error& damage) {
    report_damage(damage);
    return {};
  }
}

std::vector<std::string> CacheKey::find_labels() const {
  const path found = file("labels.json");
  if (!has(found)) {
    return {};
  }
  try {
    const Json json = Json::read(found);
    std::vector<std::string> labels = json.at("labels").strings();
    check_data(json.string("checksum") == checksum_of(labels), found.native(),
               "does not match its checksum");
    mark_as_used(found);
    return labels;
  } catch (const Error& damage) {
    report_damage(damage);
    return {};
  }
}

void CacheKey::save_labels(const std::vector<std::string>& labels) const {
  JsonWriter json;
  json.begin_object().field("checksum", checksum_of(labels)).field("labels", labels).end_object();
  write_file_atomically(file("labels.json"), json.text());
}

void CacheKey::make(const std::function<void()>& write) {
  if (temporary_) {
    write();
    return;
  }
  try {
    write();
  } catch (const Stopped&) {
    throw;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::runtime) {
      throw;  // of the data
    }
    print_message(tell("heed: warning: {}; a temporary folder is used instead of the cache",
                       translate_message(error.what())));
    folder_ = make_private_folder();
    temporary_ = true;
    write();
    return;
  }
  shrink_cache(folder_, cache_limit(), fmt::format("{:016x}", value_));
}

std::function<void(int64_t)> CacheKey::progress() const {
  return [this](int64_t done) {
    if (progress_) {
      progress_(done, total_);
    }
  };
}

path default_cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') {
    return path(cache) / "heed";
  }
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? path(home) / ".cache" / "heed" : path();
}

std::vector<CachedFile> cached_files(const path& folder) {
  std::vector<CachedFile> files;
  for_each_file(folder, [&](const path& file, const struct stat& info) {
    if (is_cache_file(file)) {
      files.push_back({file, static_cast<uint64_t>(info.st_size), info.st_mtim.tv_sec});
    }
  });
  std::sort(files.begin(), files.end(), [](const CachedFile& a, const CachedFile& b) {
    return a.last_used != b.last_used ? a.last_used < b.last_used : a.path < b.path;
  });
  return files;
}

uint64_t cache_limit() {
  const char* text = std::getenv("HEED_CACHE_LIMIT");
  if (text == nullptr || *text == '\0') {
    return kDefaultLimit;
  }
  const std::string_view value(text);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const std::string_view unit = value.substr(static_cast<size_t>(end - value.data()));
  const std::string_view units = "KMGT";
  const size_t power = unit.empty() ? 0 : units.find(unit[0]) + 1;  // npos + 1 is 0: no unit
  const bool known = unit.empty() || (unit.size() == 1 && power > 0);
  if (error != std::errc() || !known || number > (UINT64_MAX >> (10 * power))) {
    fail(ErrorKind::usage, "HEED_CACHE_LIMIT",
         "{} is not a size; expected a number of bytes with an optional K, M, G or T",
         quote(value));
  }
  return number << (10 * power);
}

void remove_stale_temporaries(const path& folder) {
  const int64_t now = now_seconds();
  for_each_file(folder, [&](const path& file, const struct stat& info) {
    if (!is_cache_temporary(file) || now - info.st_mtim.tv_sec < kFreshSeconds) {
      return;
    }
    // AtomicFile holds a lock on what it writes; the lock of a killed process is gone.
    const FileDescriptor descriptor(open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (descriptor.is_open() && flock(descriptor.get(), LOCK_EX | LOCK_NB) == 0) {
      unlink(file.c_str());
    }
  });
}

uint64_t shrink_cache(const path& folder, uint64_t limit, std::string_view keep) {
  struct Entry {
    std::vector<path> files;
    uint64_t bytes = 0;
    int64_t last_used = 0;
  };
  std::map<std::string, Entry> by_key;
  uint64_t total = 0;
  for (const CachedFile& file : cached_files(folder)) {
    Entry& entry = by_key[key_of(file.path)];
    entry.files.push_back(file.path);
    entry.bytes += file.bytes;
    entry.last_used = std::max(entry.last_used, file.last_used);
    total += file.bytes;
  }
  by_key.erase(std::string(keep));
  std::vector<Entry> oldest_first;
  oldest_first.reserve(by_key.size());
  for (auto& [key, entry] : by_key) {
    oldest_first.push_back(std::move(entry));
  }
  std::stable_sort(oldest_first.begin(), oldest_first.end(),
                   [](const Entry& a, const Entry& b) { return a.last_used < b.last_used; });
  uint64_t freed = 0;
  for (const Entry& entry : oldest_first) {
    if (total - freed <= limit) {
      break;
    }
    std::error_code ignored;  // another process may have removed it meanwhile
    for (const path& file : entry.files) {
      std::filesystem::remove(file, ignored);
    }
    freed += entry.bytes;
  }
  return freed;
}

}  // namespace heed
