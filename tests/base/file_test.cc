#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "heed/runtime.h"
#include "support/data.h"
#include "support/error.h"

namespace heed::test {
namespace {

TEST(AtomicFile, ReplacesWholeOrNotAtAll) {
  const TemporaryFolder folder;
  const auto path = folder / "file";
  write_file_atomically(path, "old");
  {
    AtomicFile file(path);
    file.write("half of the ne");
  }  // no commit
  EXPECT_EQ(read_file(path), "old");
  write_file_atomically(path, "new");
  EXPECT_EQ(read_file(path), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(AtomicFile, UnwritableFolderIsNamed) {
  try {
    write_file_atomically("/nonexistent/folder/file", "x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::runtime);
    EXPECT_NE(std::string(error.what()).find("/nonexistent/folder/file"), std::string::npos);
  }
}

TEST(AtomicFile, AFailedWriteKeepsTheOldFile) {
  const TemporaryFolder folder;
  const auto path = folder / "file";
  write_file_atomically(path, "old");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_IGN);  // a limit on the file's size stands in for the full disk
  const rlimit small{1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_ERROR(write_file_atomically(path, std::string(5000, 'x')),
               "writing failed: File too large; the old file is kept");
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  const TemporaryFolder folder;
  EXPECT_ERROR(MappedFile(folder.path()), "is a folder; expected a file");
  const auto fifo = folder / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_ERROR(MappedFile{fifo}, "is not a regular file (a pipe or device cannot be mapped)");
  EXPECT_ERROR(MappedFile("/dev/zero"),
               "is not a regular file (a pipe or device cannot be mapped)");
  EXPECT_ERROR(MappedFile(folder / "absent"), "cannot be opened: No such file or directory");
  EXPECT_ERROR(read_file("/dev/zero"), "is not a regular file (a pipe or device cannot be mapped)");
}

TEST(MappedFile, EmptyFilesAndTruncation) {
  const TemporaryFolder folder;
  const auto path = folder / "file";
  write_file_atomically(path, "");
  EXPECT_TRUE(MappedFile(path).bytes().empty());
  write_file_atomically(path, "0123456789");
  const MappedFile file(path);
  EXPECT_EQ(file.text(), "0123456789");
  EXPECT_NO_THROW(file.check_not_truncated());
  ASSERT_EQ(truncate(path.c_str(), 3), 0);
  EXPECT_ERROR(file.check_not_truncated(), "was truncated from 10 to 3 bytes while in use");
}

TEST(ReadFile, RefusesBeyondTheLimit) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "0123456789");
  EXPECT_ERROR(read_file(folder / "file", 9), "has 10 bytes; the limit is 9");
  EXPECT_EQ(read_file(folder / "file", 10), "0123456789");
}

}  // namespace
}  // namespace heed::test
