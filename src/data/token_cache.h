#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/data.h"

namespace heed {

/// The files that one dataset has in the token cache, named by a fingerprint of its content, its
/// tokenizer and its options. Where the cache folder cannot be written, they are kept in a private
/// temporary folder that the destructor removes; open shards stay usable after that.
class CacheKey {
 public:
  CacheKey(std::string_view kind, const std::vector<std::filesystem::path>& files,
           const DataOptions& options);
  ~CacheKey();
  CacheKey(const CacheKey&) = delete;
  CacheKey& operator=(const CacheKey&) = delete;

  void add(std::string_view text);
  void add(const Tokenizer& tokenizer);
  uint64_t value() const { return value_; }
  std::filesystem::path file(std::string_view ending) const;

  /// The shard made earlier. Empty if it is absent, or damaged: the latter is reported on stderr.
  TokenShard find(std::string_view ending) const;
  /// The label names stored earlier, with the same two outcomes.
  std::vector<std::string> find_labels() const;
  void save_labels(const std::vector<std::string>& labels) const;
  /// Calls write(), which writes all files of the entry, and keeps the cache within its limit. The
  /// cache is an aid: where it cannot take the files (a full disk, `ulimit -f`), write() is called
  /// once more for the private folder.
  void make(const std::function<void()>& write);

  std::function<void(int64_t bytes_done)> progress() const;

 private:
  bool has(const std::filesystem::path& file) const;

  std::filesystem::path folder_;
  bool temporary_ = false;
  int64_t total_;
  uint64_t value_;
  std::function<void(int64_t, int64_t)> progress_;
};

struct CachedFile {
  std::filesystem::path path;
  uint64_t bytes = 0;
  int64_t last_used = 0;  ///< seconds since 1970
};

/// $XDG_CACHE_HOME/heed or ~/.cache/heed; empty if neither variable is set.
std::filesystem::path default_cache_folder();
/// The files that heed made in a cache folder, the longest unused first. Others are not listed.
std::vector<CachedFile> cached_files(const std::filesystem::path& folder);
/// Bytes that the cache may take: HEED_CACHE_LIMIT, such as 500M or 20G, else 20 GiB.
uint64_t cache_limit();
/// Removes temporary files that no process is writing any more.
void remove_stale_temporaries(const std::filesystem::path& folder);
/// Removes entries until the files take at most `limit` bytes, the longest unused first and those
/// of entry `keep` never. An entry's files go together. Returns the number of bytes freed.
uint64_t shrink_cache(const std::filesystem::path& folder, uint64_t limit,
                      std::string_view keep = "");

}  // namespace heed
