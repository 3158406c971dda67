#include "base/folder_entries.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "support/data.h"
#include "support/error.h"

namespace heed::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> relative(const std::vector<fs::path>& paths, const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::path& path : paths) {
    names.push_back(path.lexically_relative(folder).native());
  }
  return names;
}

TEST(FolderEntries, AreInTheOrderOfTheirNames) {
  const TemporaryFolder folder;
  for (const char* name : {"b", ".hidden", "a", "c c"}) {
    write_file_atomically(folder / name, "");
  }
  fs::create_directory(folder / "aa");
  EXPECT_EQ(relative(folder_entries(folder.path()), folder.path()),
            (std::vector<std::string>{".hidden", "a", "aa", "b", "c c"}));
}

TEST(FolderEntries, AFolderThatCannotBeReadIsNamed) {
  const TemporaryFolder folder;
  EXPECT_EQ(message_of([&] { folder_entries(folder / "gone"); }),
            (folder / "gone").native() + ": cannot be read: No such file or directory");
  std::error_code error;
  EXPECT_TRUE(folder_entries(folder / "gone", error).empty());
  EXPECT_EQ(error, std::errc::no_such_file_or_directory);
  EXPECT_TRUE(folder_entries(folder.path(), error).empty());
  EXPECT_FALSE(error);
}

TEST(FilesBelow, LeavesOutWhatIsHiddenAndDoesNotFollowLinksToFolders) {
  const TemporaryFolder folder;
  for (const char* name : {"b", "a/z", "a/.git", ".secret"}) {
    fs::create_directories(folder / name);
    write_file_atomically(folder / name / "text", "");
  }
  write_file_atomically(folder / "a.txt", "");
  write_file_atomically(folder / ".hidden.txt", "");
  fs::create_directory_symlink("..", folder / "b" / "loop");
  fs::create_symlink("../a.txt", folder / "b" / "link.txt");
  fs::create_symlink("nowhere", folder / "b" / "broken");
  EXPECT_EQ(relative(files_below(folder.path()), folder.path()),
            (std::vector<std::string>{"a/z/text", "a.txt", "b/link.txt", "b/text"}));
}

}  // namespace
}  // namespace heed::test
