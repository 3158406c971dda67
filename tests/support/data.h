#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace heed::test {

/// The project's folder: what ctest says, or the first one above this program with a
/// CMakePresets.json.
inline std::filesystem::path source_folder() {
  if (const char* told = std::getenv("HEED_SOURCE")) {
    return told;
  }
  std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  while (folder.has_relative_path() && !std::filesystem::exists(folder / "CMakePresets.json")) {
    folder = folder.parent_path();
  }
  return folder;
}

/// The heed program of this build.
inline std::filesystem::path program() {
  if (const char* told = std::getenv("HEED_PROGRAM")) {
    return told;
  }
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "heed";
}

/// The committed reference files.
inline std::filesystem::path golden(const std::string& name) {
  return source_folder() / "tests" / "golden" / name;
}

/// Real models and texts, in the folder that CMake's HEED_SHARED names; tests that need one skip
/// where it is absent.
inline std::filesystem::path shared_data(const std::string& name) {
  return std::filesystem::path(HEED_SHARED) / name;
}

/// A fresh folder that is removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "heed-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace heed::test

/// Skips the test, and says so, where a file of shared_data() is absent.
#define HEED_NEEDS_SHARED(name)                                  \
  if (!std::filesystem::exists(heed::test::shared_data(name))) { \
    GTEST_SKIP() << "needs " << heed::test::shared_data(name);   \
  }
