#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace heed {

/// What a folder holds, in the order of the names. In place of std::filesystem's iterators, which
/// end the process where there is no memory for a name (libstdc++ reads folders in noexcept code).
std::vector<std::filesystem::path> folder_entries(const std::filesystem::path& folder);
/// The same; empty, with the reason in `error`, where the folder cannot be read.
std::vector<std::filesystem::path> folder_entries(const std::filesystem::path& folder,
                                                  std::error_code& error);

enum class Unreadable { fail, skip };

/// The regular files in a folder and the folders below it, in the order of their paths, without
/// those whose name, or whose folder's name, begins with a dot. Links to folders are not followed.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder,
                                               Unreadable unreadable = Unreadable::fail);

}  // namespace heed
