#include "base/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/check.h"
#include "base/file.h"
#include "base/file_descriptor.h"
#include "base/language.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".tmp.";
constexpr size_t kDigits = 16;        // hexadecimal, after the mark
constexpr size_t kLongestName = 255;  // of a file, on every file system that matters
constexpr int kMostLinks = 40;        // followed in a row, as Linux does

std::string reason() { return std::strerror(errno); }

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

uint64_t unpredictable_number() {
  uint64_t number = 0;
  if (getrandom(&number, sizeof number, GRND_NONBLOCK) == sizeof number) {
    return number;
  }
  // Too early after boot for random numbers: O_EXCL still refuses a name that exists.
  static std::atomic<uint64_t> counter{0};
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return (static_cast<uint64_t>(now) ^ static_cast<uint64_t>(getpid()) << 40) + counter++;
}

/// Paths of the open temporaries, for a signal handler: fixed memory, no locks. With more open
/// files than slots, or a longer path, the rest is left to those who clean up later.
struct TemporarySlot {
  std::atomic<int> state{0};  // 0 free, 1 being filled, 2 in use
  char path[1024];
};
TemporarySlot g_slots[64];

void register_temporary(const fs::path& path) {
  const std::string& name = path.native();
  for (TemporarySlot& slot : g_slots) {
    int unused = 0;
    if (name.size() < sizeof slot.path && slot.state.compare_exchange_strong(unused, 1)) {
      std::memcpy(slot.path, name.c_str(), name.size() + 1);
      slot.state.store(2);
      return;
    }
  }
}

void unregister_temporary(const fs::path& path) {
  for (TemporarySlot& slot : g_slots) {
    if (slot.state.load() == 2 && path.native() == slot.path) {
      slot.state.store(0);
      return;
    }
  }
}

/// /dev/stdout and the like: links that the kernel resolves by itself.
bool is_descriptor_link(const fs::path& path) {
  std::error_code error;
  const fs::path folder = fs::canonical(parent_of(path), error);
  return !error && folder.native().starts_with("/proc/");
}

/// The file that `path` stands for once links are followed, whether it exists or not.
fs::path follow_links(fs::path path, bool& descriptor_link) {
  std::error_code error;
  for (int links = 0; links <= kMostLinks; ++links) {
    if (is_descriptor_link(path)) {
      descriptor_link = true;
      return path;
    }
    if (!fs::is_symlink(fs::symlink_status(path, error))) {
      return path;
    }
    const fs::path to = fs::read_symlink(path, error);
    if (error) {
      return path;
    }
    path = to.is_absolute() ? to : parent_of(path) / to;
  }
  fail(ErrorKind::runtime, path.native(), "cannot be written: too many symbolic links");
}

int sync(int descriptor) {
  int result = fsync(descriptor);
  while (result != 0 && errno == EINTR) {
    result = fsync(descriptor);
  }
  return result;
}

/// FIFOs, devices, and on some file systems folders.
bool cannot_be_synced(int error) { return error == EINVAL || error == ENOTSUP || error == EROFS; }

[[noreturn]] void fail_writing(const fs::path& path, bool replaces, std::string_view why) {
  fail(ErrorKind::runtime, path.native(), "writing failed: {}{}", why,
       replaces ? say("; the old file is kept") : "");
}

}  // namespace

fs::path temporary_name(const fs::path& path) {
  std::string name = path.filename().native();
  name.resize(std::min(name.size(), kLongestName - kMark.size() - kDigits));
  return parent_of(path) / fmt::format("{}{}{:016x}", name, kMark, unpredictable_number());
}

bool is_temporary_file(const fs::path& path) {
  const std::string name = path.filename().native();
  const size_t mark = name.rfind(kMark);
  return mark != std::string::npos && name.size() == mark + kMark.size() + kDigits &&
         name.find_first_not_of("0123456789abcdef", mark + kMark.size()) == std::string::npos;
}

namespace {

/// Creates a file that nobody else can have created or linked there before, and locks it: the lock
/// tells a file that is being written from one that a killed process left.
FileDescriptor open_temporary(const fs::path& target, mode_t mode, fs::path& name) {
  constexpr int kAttempts = 16;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    name = temporary_name(target);
    FileDescriptor opened(
        open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (opened.is_open()) {
      flock(opened.get(), LOCK_EX | LOCK_NB);
      return opened;
    }
    if (errno != EEXIST) {
      break;
    }
  }
  fail(ErrorKind::runtime, target.native(), "cannot be written: {}", reason());
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& path) {
  bool descriptor_link = false;
  path_ = follow_links(path, descriptor_link);
  struct stat info {};
  const bool exists = stat(path_.c_str(), &info) == 0;
  if (!exists && errno != ENOENT) {
    fail(ErrorKind::runtime, path.native(), "cannot be written: {}", reason());
  }
  check(!exists || !S_ISDIR(info.st_mode), path.native(), "is a folder; expected a file");
  if (descriptor_link || (exists && !S_ISREG(info.st_mode))) {
    descriptor_ = open(path_.c_str(), O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC);
    if (descriptor_ < 0) {
      fail(ErrorKind::runtime, path.native(), "cannot be written: {}", reason());
    }
    return;  // written through: no temporary
  }
  if (exists && access(path_.c_str(), W_OK) != 0) {
    fail(ErrorKind::runtime, path.native(), "cannot be written: {}", reason());
  }
  FileDescriptor opened = open_temporary(path_, exists ? 0600 : 0666, temporary_);
  if (exists) {
    // Without the right to give a file away it belongs to the writer; then nobody gains access.
    const bool same_owner = fchown(opened.get(), info.st_uid, info.st_gid) == 0;
    if (fchmod(opened.get(), info.st_mode & (same_owner ? 07777 : 0777)) != 0) {
      const std::string why = reason();
      unlink(temporary_.c_str());
      fail(ErrorKind::runtime, path.native(), "cannot be written: {}", why);
    }
  }
  temporary_ = fs::absolute(temporary_);
  register_temporary(temporary_);
  descriptor_ = opened.release();
}

void check_can_write(const fs::path& path) {
  struct stat info {};
  bool descriptor_link = false;
  const fs::path target = follow_links(path, descriptor_link);
  const bool exists = stat(target.c_str(), &info) == 0;
  if (descriptor_link || (exists && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))) {
    return;  // written through: opening a FIFO would wait for its reader
  }
  const AtomicFile trial(path);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) {
    close(descriptor_);
    if (!temporary_.empty()) {
      unlink(temporary_.c_str());
      unregister_temporary(temporary_);
    }
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
      fail_writing(path_, !temporary_.empty(), n < 0 ? reason() : "short write");
    }
    next += n;
    bytes -= static_cast<size_t>(n);
  }
}

void AtomicFile::commit() {
  const bool replaces = !temporary_.empty();
  if (sync(descriptor_) != 0 && (replaces || !cannot_be_synced(errno))) {
    fail_writing(path_, replaces, reason());
  }
  const int descriptor = descriptor_;
  descriptor_ = -1;
  const bool closed = close(descriptor) == 0 || errno == EINTR;  // Linux closes it in either case
  if (!replaces) {
    if (!closed) {
      fail_writing(path_, replaces, reason());
    }
    return;
  }
  const bool renamed = closed && rename(temporary_.c_str(), path_.c_str()) == 0;
  const std::string why = renamed ? "" : reason();
  if (!renamed) {
    unlink(temporary_.c_str());
  }
  unregister_temporary(temporary_);
  check(renamed, path_.native(), "cannot be replaced: {}; the old file is kept", why);
  sync_folder(parent_of(path_));
}

void remove_open_temporaries() noexcept {
  for (TemporarySlot& slot : g_slots) {
    if (slot.state.load() == 2) {
      unlink(slot.path);
    }
  }
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void sync_folder(const fs::path& folder) {
  const FileDescriptor opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.is_open() && errno == EACCES) {
    return;  // a folder that may be written and searched, but not listed
  }
  if (!opened.is_open() || (sync(opened.get()) != 0 && !cannot_be_synced(errno))) {
    fail(ErrorKind::runtime, folder.native(), "cannot be synced: {}", reason());
  }
}

}  // namespace heed
