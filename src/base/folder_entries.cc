#include "base/folder_entries.h"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

#include "base/check.h"

namespace heed {
namespace fs = std::filesystem;
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

/// Adds the files of `folder` to `files` and its folders to `folders`.
void add_entries(const fs::path& folder, Unreadable unreadable, std::vector<fs::path>& files,
                 std::vector<fs::path>& folders) {
  std::error_code error;
  for (fs::path& entry : folder_entries(folder, error)) {
    if (entry.filename().native().starts_with('.')) {
      continue;
    }
    std::error_code gone;  // since the folder was read: neither a file nor a folder
    if (fs::is_directory(fs::symlink_status(entry, gone))) {
      folders.push_back(std::move(entry));
    } else if (fs::is_regular_file(entry, gone)) {
      files.push_back(std::move(entry));
    }
  }
  check_data(!error || unreadable == Unreadable::skip, folder.native(), "cannot be read: {}",
             error.message());
}

}  // namespace

std::vector<fs::path> folder_entries(const fs::path& folder, std::error_code& error) {
  std::vector<fs::path> entries;
  error.clear();
  const std::unique_ptr<DIR, CloseFolder> open(opendir(folder.c_str()));
  while (open != nullptr) {
    errno = 0;
    const dirent* entry = readdir(open.get());
    if (entry == nullptr) {
      break;
    }
    const std::string_view name(entry->d_name);
    if (name != "." && name != "..") {
      entries.push_back(folder / name);
    }
  }
  if (open == nullptr || errno != 0) {
    error.assign(errno, std::generic_category());
    return {};
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::vector<fs::path> folder_entries(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries = folder_entries(folder, error);
  check_data(!error, folder.native(), "cannot be read: {}", error.message());
  return entries;
}

std::vector<fs::path> files_below(const fs::path& folder, Unreadable unreadable) {
  std::vector<fs::path> files;
  std::vector<fs::path> folders;
  add_entries(folder, Unreadable::fail, files, folders);
  while (!folders.empty()) {
    const fs::path next = std::move(folders.back());
    folders.pop_back();
    add_entries(next, unreadable, files, folders);
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace heed
