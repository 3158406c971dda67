#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace heed {
class SearchIndex;
}

namespace heed::serve {

/// The search indexes that can be asked, by name. Opened when they are first asked for; one request
/// at a time uses each.
class SearchIndexes {
 public:
  struct Source {
    std::string name;
    std::filesystem::path path;
  };
  /// An index that nobody else uses while this is held.
  struct Held {
    std::unique_lock<std::mutex> lock;
    SearchIndex* index;
  };

  explicit SearchIndexes(std::vector<Source> sources);
  ~SearchIndexes();

  /// The index of this name, or the only one where it is empty. Throws BadRequest.
  Held get(const std::string& name);
  /// Opens them all; throws what the first bad one throws.
  void open_all();
  /// Opens them again when they are next asked for.
  void reload();

 private:
  struct Slot;
  std::map<std::string, std::unique_ptr<Slot>> slots_;
};

}  // namespace heed::serve
