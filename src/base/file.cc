#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/bus_guard.h"
#include "base/check.h"
#include "base/parallel.h"

namespace heed {
namespace {

std::string reason() { return std::strerror(errno); }

/// Opens a regular file for reading and sets `size`.
int open_regular(const std::filesystem::path& path, uint64_t& size) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    fail(ErrorKind::data, path.native(), "cannot be opened: {}", reason());
  }
  check_data(!S_ISDIR(info.st_mode), path.native(), "is a folder; expected a file");
  check_data(S_ISREG(info.st_mode), path.native(),
             "is not a regular file (a pipe or device cannot be mapped)");
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    fail(ErrorKind::data, path.native(), "cannot be opened: {}", reason());
  }
  size = static_cast<uint64_t>(info.st_size);
  return descriptor;
}

}  // namespace

void drop_pages(std::span<const std::byte> part) {
  constexpr int64_t kPiece = int64_t{4} << 20;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(part.data());
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t end = (begin + part.size()) / page * page;
  if (first >= end) {
    return;
  }
  parallel_ranges(static_cast<int64_t>(end - first), kPiece, [&](int64_t from, int64_t to) {
    madvise(reinterpret_cast<void*>(first + static_cast<uintptr_t>(from)),
            static_cast<size_t>(to - from), MADV_DONTNEED);
  });
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  uint64_t size = 0;
  descriptor_ = open_regular(path, size);
  size_ = size;
  if (size_ == 0) {
    return;
  }
  void* address = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor_, 0);
  if (address == MAP_FAILED) {
    const std::string why = reason();
    close(descriptor_);
    fail(ErrorKind::data, path.native(), "cannot be mapped: {}", why);
  }
  data_ = static_cast<const std::byte*>(address);
  guard_ = guard_range(data_, size_, [this] { check_not_truncated(); });
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    release_range(guard_);
    drop_pages(bytes());  // on all threads; munmap() alone takes 13 ms for 500 MB
    munmap(const_cast<std::byte*>(data_), size_);
  }
  close(descriptor_);
}

void MappedFile::check_not_truncated() const {
  struct stat info {};
  if (fstat(descriptor_, &info) == 0 && static_cast<uint64_t>(info.st_size) < size_) {
    fail(ErrorKind::data, path_.native(),
         "was truncated from {} to {} bytes while in use; write a new file and rename it instead",
         size_, info.st_size);
  }
  check_data(guard_ == nullptr || !was_truncated(guard_), path_.native(),
             "could not be read any more while in use (truncated, or a disk error)");
}

std::string read_file(const std::filesystem::path& path, uint64_t limit) {
  uint64_t size = 0;
  const int descriptor = open_regular(path, size);
  std::string text;
  if (size > limit) {
    close(descriptor);
    fail(ErrorKind::data, path.native(), "has {} bytes; the limit is {}", size, limit);
  }
  text.resize(size);
  size_t got = 0;
  while (got < size) {
    const ssize_t n = read(descriptor, text.data() + got, size - got);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      break;
    }
    got += static_cast<size_t>(n);
  }
  close(descriptor);
  check_data(got == size, path.native(), "ended after {} of {} bytes", got, size);
  return text;
}

AtomicFile::AtomicFile(const std::filesystem::path& path) : path_(path) {
  static std::atomic<unsigned> counter{0};
  temporary_ = path;
  temporary_ += fmt::format(".tmp.{}.{}", getpid(), counter++);
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    fail(ErrorKind::runtime, path.native(), "cannot be written: {}", reason());
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) {
    close(descriptor_);
    unlink(temporary_.c_str());
  }
}

void AtomicFile::write(const void* data, size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(descriptor_, next, bytes);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      fail(ErrorKind::runtime, path_.native(), "writing failed: {}; the old file is kept",
           n < 0 ? reason() : "short write");
    }
    next += n;
    bytes -= static_cast<size_t>(n);
  }
}

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0) {
    fail(ErrorKind::runtime, path_.native(), "writing failed: {}; the old file is kept", reason());
  }
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (close(descriptor) != 0 || rename(temporary_.c_str(), path_.c_str()) != 0) {
    const std::string why = reason();
    unlink(temporary_.c_str());
    fail(ErrorKind::runtime, path_.native(), "cannot be replaced: {}; the old file is kept", why);
  }
  sync_folder(path_.has_parent_path() ? path_.parent_path() : std::filesystem::path("."));
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    fail(ErrorKind::runtime, folder.native(), "cannot be opened: {}", reason());
  }
  fsync(descriptor);  // some file systems refuse this on folders; the rename itself is done
  close(descriptor);
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder)) {
    fail(ErrorKind::runtime, folder.native(), "cannot be created: {}",
         error ? error.message() : "something else has this name");
  }
}

}  // namespace heed
