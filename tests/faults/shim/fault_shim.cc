// LD_PRELOAD=libheed_fault_shim.so: makes the N-th file operation below a folder fail.
//
//   HEED_FAULT_FOLDER  only files below it count
//   HEED_FAULT         KIND:N, where KIND is
//     enospc, eio      the operation fails with that error, and all later ones, too
//     eintr            it is interrupted once, with nothing done
//     short            a write takes only half of its bytes, once
//     kill             the process dies before the operation
//     power            the process dies, and whatever was not synced is lost
//   HEED_FAULT_COUNT   a file that receives the number of operations at the end
//
// Counted are write, pwrite, fsync, fdatasync, rename and renameat2.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace {

enum class Kind { none, enospc, eio, eintr, shortened, kill, power };

struct Plan {
  std::string folder;
  Kind kind = Kind::none;
  long at = 0;
};

const Plan& plan() {
  static const Plan* made = [] {
    auto* plan = new Plan;
    if (const char* folder = std::getenv("HEED_FAULT_FOLDER")) {
      plan->folder = folder;
    }
    if (const char* fault = std::getenv("HEED_FAULT")) {
      const std::string text = fault;
      const size_t colon = text.find(':');
      const std::string kind = text.substr(0, colon);
      plan->kind = kind == "enospc"  ? Kind::enospc
                   : kind == "eio"   ? Kind::eio
                   : kind == "eintr" ? Kind::eintr
                   : kind == "short" ? Kind::shortened
                   : kind == "kill"  ? Kind::kill
                   : kind == "power" ? Kind::power
                                     : Kind::none;
      plan->at = std::atol(text.c_str() + colon + 1);
    }
    return plan;
  }();
  return *made;
}

std::atomic<long> g_count{0};

/// Files with bytes that no fsync has covered: what a power failure may take.
struct Unsynced {
  std::string path;
  off_t synced_size = 0;
};
std::mutex g_lock;
std::map<ino_t, Unsynced>& unsynced() {
  static auto* all = new std::map<ino_t, Unsynced>;
  return *all;
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

std::string path_of(int descriptor) {
  char link[64];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  char path[PATH_MAX];
  const ssize_t length = readlink(link, path, sizeof path - 1);
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : std::string();
}

bool counts(const std::string& path) {
  return !plan().folder.empty() && path.rfind(plan().folder, 0) == 0;
}

[[noreturn]] void lose_power() {
  const std::lock_guard lock(g_lock);
  for (const auto& [inode, file] : unsynced()) {
    if (truncate(file.path.c_str(), file.synced_size) != 0) {
      continue;  // gone already
    }
  }
  raise(SIGKILL);
  std::abort();
}

/// Counts an operation. True if it is to fail, with errno set.
bool fails(bool* shorten = nullptr) {
  const long number = ++g_count;
  const Plan& p = plan();
  if (p.kind == Kind::none || number < p.at) {
    return false;
  }
  const bool now = number == p.at;
  switch (p.kind) {
    case Kind::enospc:
      errno = ENOSPC;
      return true;
    case Kind::eio:
      errno = EIO;
      return true;
    case Kind::eintr:
      errno = EINTR;
      return now;
    case Kind::shortened:
      if (now && shorten != nullptr) {
        *shorten = true;
      }
      return false;
    case Kind::kill:
      raise(SIGKILL);
      return true;
    case Kind::power:
      lose_power();
    case Kind::none:
      break;
  }
  return false;
}

void mark_written(int descriptor, const std::string& path) {
  struct stat info {};
  if (fstat(descriptor, &info) == 0) {
    const std::lock_guard lock(g_lock);
    unsynced().try_emplace(info.st_ino, Unsynced{path, info.st_size});
  }
}

void mark_synced(int descriptor) {
  struct stat info {};
  if (fstat(descriptor, &info) == 0) {
    const std::lock_guard lock(g_lock);
    unsynced().erase(info.st_ino);
  }
}

void mark_renamed(const char* from, const char* to) {
  const std::lock_guard lock(g_lock);
  const std::string old = from;
  for (auto& [inode, file] : unsynced()) {
    if (file.path == old) {
      file.path = to;
    } else if (file.path.rfind(old + "/", 0) == 0) {
      file.path = to + file.path.substr(old.size());
    }
  }
}

struct Report {
  ~Report() {
    if (const char* path = std::getenv("HEED_FAULT_COUNT")) {
      if (std::FILE* file = std::fopen(path, "w")) {
        std::fprintf(file, "%ld\n", g_count.load());
        std::fclose(file);
      }
    }
  }
} g_report;

int sync_with(const char* name, int descriptor) {
  if (counts(path_of(descriptor))) {
    if (fails()) {
      return -1;
    }
    mark_synced(descriptor);
  }
  return next<int(int)>(name)(descriptor);
}

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* data, size_t bytes) {
  static auto* real = next<ssize_t(int, const void*, size_t)>("write");
  if (const std::string path = path_of(descriptor); counts(path)) {
    mark_written(descriptor, path);
    bool shorten = false;
    if (fails(&shorten)) {
      return -1;
    }
    if (shorten && bytes > 1) {
      bytes /= 2;
    }
  }
  return real(descriptor, data, bytes);
}

ssize_t pwrite(int descriptor, const void* data, size_t bytes, off_t offset) {
  static auto* real = next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  if (const std::string path = path_of(descriptor); counts(path)) {
    mark_written(descriptor, path);
    if (fails()) {
      return -1;
    }
  }
  return real(descriptor, data, bytes, offset);
}

ssize_t pwrite64(int descriptor, const void* data, size_t bytes, off64_t offset) {
  return pwrite(descriptor, data, bytes, offset);
}

int fsync(int descriptor) { return sync_with("fsync", descriptor); }
int fdatasync(int descriptor) { return sync_with("fdatasync", descriptor); }

int rename(const char* from, const char* to) {
  static auto* real = next<int(const char*, const char*)>("rename");
  if (counts(from)) {
    if (fails()) {
      return -1;
    }
    mark_renamed(from, to);
  }
  return real(from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  static auto* real = next<int(int, const char*, int, const char*, unsigned)>("renameat2");
  if (counts(from)) {
    if (fails()) {
      return -1;
    }
    if (flags == 0) {
      mark_renamed(from, to);
    }
  }
  return real(from_folder, from, to_folder, to, flags);
}
}
