#include "base/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/file_descriptor.h"
#include "heed/runtime.h"
#include "support/data.h"
#include "support/error.h"

namespace {

/// What the next call of getrandom() gives, counting up; the kernel's own where it is nothing.
std::optional<uint64_t> g_next_number;

}  // namespace

/// In place of the C library's: the names of temporary files are made of these numbers.
ssize_t getrandom(void* buffer, size_t bytes, unsigned flags) {
  if (!g_next_number) {
    return syscall(SYS_getrandom, buffer, bytes, flags);
  }
  const uint64_t number = (*g_next_number)++;
  std::memcpy(buffer, &number, std::min(bytes, sizeof number));
  return static_cast<ssize_t>(bytes);
}

namespace heed::test {
namespace {

mode_t mode_of(const std::filesystem::path& path) {
  struct stat info {};
  EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
  return info.st_mode;
}

int files_in(const TemporaryFolder& folder) {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder.path()), {}));
}

TEST(OutputFile, KeepsTheModeOfTheOldFile) {
  const TemporaryFolder folder;
  const auto path = folder / "secret";
  write_file_atomically(path, "old");
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  write_file_atomically(path, "new");
  EXPECT_EQ(mode_of(path) & 07777, 0600u);
  EXPECT_EQ(read_file(path), "new");
}

TEST(OutputFile, ANewFileObeysTheUmask) {
  const TemporaryFolder folder;
  const mode_t before = umask(027);
  write_file_atomically(folder / "file", "x");
  umask(before);
  EXPECT_EQ(mode_of(folder / "file") & 07777, 0640u);
}

TEST(OutputFile, TheTemporaryIsNeverWiderThanTheOldFile) {
  const TemporaryFolder folder;
  const auto path = folder / "secret";
  write_file_atomically(path, "old");
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  const AtomicFile file(path);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_EQ(mode_of(entry.path()) & 0077, 0u) << entry.path();
  }
}

TEST(OutputFile, FollowsLinksAndKeepsThem) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "elsewhere");
  write_file_atomically(folder / "elsewhere/file", "old");
  std::filesystem::create_symlink("elsewhere/file", folder / "link");
  std::filesystem::create_symlink("link", folder / "second");
  write_file_atomically(folder / "second", "new");
  EXPECT_TRUE(S_ISLNK(mode_of(folder / "second")));
  EXPECT_TRUE(S_ISLNK(mode_of(folder / "link")));
  EXPECT_EQ(read_file(folder / "elsewhere/file"), "new");
  std::filesystem::create_symlink("absent", folder / "dangling");
  write_file_atomically(folder / "dangling", "made");
  EXPECT_TRUE(S_ISLNK(mode_of(folder / "dangling")));
  EXPECT_EQ(read_file(folder / "absent"), "made");
  std::filesystem::create_symlink("loop", folder / "loop");
  EXPECT_ERROR(write_file_atomically(folder / "loop", "x"),
               "cannot be written: too many symbolic links");
}

TEST(OutputFile, WritesThroughDevicesAndFifos) {
  const TemporaryFolder folder;
  write_file_atomically("/dev/null", "gone");
  EXPECT_TRUE(S_ISCHR(mode_of("/dev/null")));
  const auto fifo = folder / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] {
    const FileDescriptor descriptor(open(fifo.c_str(), O_RDONLY));
    char buffer[64];
    for (ssize_t n = 0; (n = read(descriptor.get(), buffer, sizeof buffer)) > 0;) {
      got.append(buffer, static_cast<size_t>(n));
    }
  });
  write_file_atomically(fifo, "through the pipe");
  reader.join();
  EXPECT_EQ(got, "through the pipe");
  EXPECT_TRUE(S_ISFIFO(mode_of(fifo)));
  EXPECT_EQ(files_in(folder), 1);
}

TEST(OutputFile, WritesThroughDescriptorLinks) {
  const TemporaryFolder folder;
  const FileDescriptor file(open((folder / "out").c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_TRUE(file.is_open());
  write_file_atomically("/proc/self/fd/" + std::to_string(file.get()), "text");
  EXPECT_EQ(read_file(folder / "out"), "text");
  char buffer[8] = {};
  EXPECT_EQ(pread(file.get(), buffer, sizeof buffer, 0), 4) << "the same file, not a replacement";
}

TEST(OutputFile, RefusesFoldersAndFullDevices) {
  const TemporaryFolder folder;
  EXPECT_ERROR(write_file_atomically(folder.path(), "x"), "is a folder; expected a file");
  EXPECT_ERROR(write_file_atomically("/dev/full", "x"), "writing failed: No space left on device");
  EXPECT_TRUE(S_ISCHR(mode_of("/dev/full")));
}

TEST(OutputFile, TemporaryNamesAreRecognisedAndDiffer) {
  const std::filesystem::path first = temporary_name("folder/model.gguf");
  EXPECT_NE(first, temporary_name("folder/model.gguf"));
  EXPECT_EQ(first.parent_path(), "folder");
  EXPECT_TRUE(is_temporary_file(first));
  EXPECT_TRUE(is_temporary_file(temporary_name(std::string(255, 'n'))));
  EXPECT_LE(temporary_name(std::string(255, 'n')).filename().native().size(), 255u);
  EXPECT_FALSE(is_temporary_file("model.gguf"));
  EXPECT_FALSE(is_temporary_file("model.tmp.gguf"));
}

/// Someone guesses the names of temporary files and puts links to `victim` there.
class GuessedNames {
 public:
  GuessedNames(const std::filesystem::path& path, const std::filesystem::path& victim, int count) {
    g_next_number = 7;
    for (int i = 0; i < count; ++i) {
      links_.push_back(temporary_name(path));
      std::filesystem::create_symlink(victim, links_.back());
    }
    g_next_number = 7;
  }
  ~GuessedNames() { g_next_number.reset(); }
  void expect_untouched() const {
    for (const auto& link : links_) {
      EXPECT_TRUE(S_ISLNK(mode_of(link))) << link;
    }
  }

 private:
  std::vector<std::filesystem::path> links_;
};

TEST(OutputFile, AGuessedTemporaryNameIsNotOpened) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "victim", "mine");
  for (const char* target : {"victim", "absent"}) {
    const auto path = folder / (std::string("file-") + target);
    const GuessedNames guessed(path, folder / target, 3);
    write_file_atomically(path, "text");
    EXPECT_EQ(read_file(path), "text");
    EXPECT_TRUE(S_ISREG(mode_of(path)));
    guessed.expect_untouched();
  }
  EXPECT_EQ(read_file(folder / "victim"), "mine");
  EXPECT_FALSE(std::filesystem::exists(folder / "absent")) << "made through the link";
}

TEST(OutputFile, NamesThatAreAllTakenAreAnError) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "victim", "mine");
  write_file_atomically(folder / "file", "old");
  const GuessedNames guessed(folder / "file", folder / "victim", 16);
  EXPECT_ERROR(write_file_atomically(folder / "file", "new"), "cannot be written: File exists");
  guessed.expect_untouched();
  EXPECT_EQ(read_file(folder / "file"), "old");
  EXPECT_EQ(read_file(folder / "victim"), "mine");
}

TEST(OutputFile, AHandlerCanRemoveOpenTemporaries) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "file");
  file.write("half");
  EXPECT_EQ(files_in(folder), 1);
  remove_open_temporaries();
  EXPECT_EQ(files_in(folder), 0);
}

TEST(OutputFile, LongNamesWork) {
  const TemporaryFolder folder;
  const auto path = folder / std::string(255, 'n');
  write_file_atomically(path, "x");
  EXPECT_EQ(read_file(path), "x");
}

}  // namespace
}  // namespace heed::test
