// LD_PRELOAD=libheed_allocation_shim.so: makes the N-th allocation fail, once, counted from the
// first opening of a file below a folder: what a program allocates before main() is not its own.
//
//   HEED_ALLOCATION_FOLDER  the folder
//   HEED_ALLOCATION         N; 0: none
//   HEED_ALLOCATION_COUNT   a file that receives the number of allocations at the end
//
// Counted are malloc, calloc, realloc, aligned_alloc, posix_memalign and memalign, on any thread.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

std::atomic<bool> g_counting{false};
std::atomic<long> g_count{0};
long g_fails_at = -1;

bool fails() {
  if (!g_counting.load(std::memory_order_relaxed)) {
    return false;
  }
  if (++g_count != g_fails_at) {
    return false;
  }
  errno = ENOMEM;
  return true;
}

void opened(const char* path) {
  if (g_counting || path == nullptr) {
    return;
  }
  const char* folder = std::getenv("HEED_ALLOCATION_FOLDER");
  if (folder != nullptr && std::strncmp(path, folder, std::strlen(folder)) == 0) {
    const char* number = std::getenv("HEED_ALLOCATION");
    g_fails_at = number != nullptr && std::atol(number) > 0 ? std::atol(number) : -1;
    g_counting = true;
  }
}

struct Report {
  ~Report() {
    g_counting = false;
    if (const char* path = std::getenv("HEED_ALLOCATION_COUNT")) {
      if (std::FILE* file = std::fopen(path, "w")) {
        std::fprintf(file, "%ld\n", g_count.load());
        std::fclose(file);
      }
    }
  }
} g_report;

int open_with(int folder, const char* path, int flags, mode_t mode) {
  opened(path);
  return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
}

}  // namespace

#define HEED_MODE(flags)                                    \
  mode_t mode = 0;                                          \
  if (((flags)&O_CREAT) != 0 || ((flags)&O_TMPFILE) != 0) { \
    va_list rest;                                           \
    va_start(rest, flags);                                  \
    mode = va_arg(rest, mode_t);                            \
    va_end(rest);                                           \
  }

extern "C" {

void* malloc(size_t bytes) { return fails() ? nullptr : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return fails() ? nullptr : __libc_calloc(count, bytes); }
void* realloc(void* old, size_t bytes) { return fails() ? nullptr : __libc_realloc(old, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) {
  return fails() ? nullptr : __libc_memalign(alignment, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  return fails() ? nullptr : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  *out = fails() ? nullptr : __libc_memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}

int open(const char* path, int flags, ...) {
  HEED_MODE(flags)
  return open_with(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  HEED_MODE(flags)
  return open_with(AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  HEED_MODE(flags)
  return open_with(folder, path, flags, mode);
}
}
