#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/bus_guard.h"
#include "base/check.h"
#include "base/language.h"
#include "base/parallel.h"

namespace heed {
namespace {

std::string reason() { return std::strerror(errno); }

/// Opens a regular file for reading and sets `size`. What was opened is checked, not the path,
/// which may change in between; O_NONBLOCK keeps a FIFO from blocking.
FileDescriptor open_regular(const std::filesystem::path& path, uint64_t& size) {
  FileDescriptor descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!descriptor.is_open()) {
    fail(ErrorKind::data, path.native(), "cannot be opened: {}", reason());
  }
  struct stat info {};
  if (fstat(descriptor.get(), &info) != 0) {
    fail(ErrorKind::data, path.native(), "cannot be examined: {}", reason());
  }
  check_data(!S_ISDIR(info.st_mode), path.native(), "is a folder; expected a file");
  check_data(S_ISREG(info.st_mode), path.native(),
             "is not a regular file (a pipe or device cannot be mapped)");
  size = static_cast<uint64_t>(info.st_size);
  return descriptor;
}

/// Of a file that is mapped: whether it is as long as it was, and could be read.
void check_intact(const std::filesystem::path& path, int descriptor, size_t size, bool cut) {
  struct stat info {};
  if (fstat(descriptor, &info) == 0 && static_cast<uint64_t>(info.st_size) < size) {
    fail(ErrorKind::data, path.native(),
         "was truncated from {} to {} bytes while in use; write a new file and rename it instead",
         size, info.st_size);
  }
  check_data(!cut, path.native(),
             "could not be read any more while in use (truncated, or a disk error)");
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
    auto* start = const_cast<std::byte*>(part.data()) + (first - begin) + from;
    madvise(start, static_cast<size_t>(to - from), MADV_DONTNEED);
  });
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  uint64_t size = 0;
  FileDescriptor descriptor = open_regular(path, size);
  size_ = size;
  if (size_ == 0) {
    descriptor_ = descriptor.release();
    return;
  }
  void* address = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
  if (address == MAP_FAILED) {
    fail(ErrorKind::data, path.native(), "cannot be mapped: {}", reason());
  }
  data_ = static_cast<const std::byte*>(address);
  descriptor_ = descriptor.get();
  try {
    // Another thread may call the check at once: it reads nothing that is written from here on.
    guard_ = guard_range(data_, size_,
                         [this](bool cut) { check_intact(path_, descriptor_, size_, cut); });
  } catch (...) {
    munmap(address, size_);
    throw;
  }
  descriptor.release();
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
  check_intact(path_, descriptor_, size_, guard_ != nullptr && was_cut(guard_));
}

InputFile::InputFile(const std::filesystem::path& path)
    : path_(path), descriptor_(open_regular(path, size_)) {}

void InputFile::read_at(uint64_t offset, void* data, size_t bytes) const {
  size_t got = 0;
  while (got < bytes) {
    const ssize_t n = pread(descriptor_.get(), static_cast<char*>(data) + got, bytes - got,
                            static_cast<off_t>(offset + got));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      break;
    }
    got += static_cast<size_t>(n);
  }
  check_data(got == bytes, path_.native(), "ended after {} of {} bytes", offset + got, size_);
}

std::string read_file(const std::filesystem::path& path, uint64_t limit) {
  const InputFile file(path);
  check_data(file.size() <= limit, path.native(), "has {} bytes; the limit is {}", file.size(),
             limit);
  std::string text;
  text.resize(file.size());
  file.read_at(0, text.data(), text.size());
  return text;
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::error_code unknown;
  if (error || !std::filesystem::is_directory(folder, unknown)) {
    fail(ErrorKind::runtime, folder.native(), "cannot be created: {}",
         error ? error.message() : say("something else has this name"));
  }
}

}  // namespace heed
