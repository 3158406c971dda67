// LD_PRELOAD=libheed_clock_shim.so: the steady clock runs a million times as fast, so that a short
// job shows what a long one shows.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (clock == CLOCK_MONOTONIC && result == 0) {
    constexpr int64_t kSecond = 1'000'000'000;
    const int64_t now = time->tv_sec * kSecond + time->tv_nsec;
    static const int64_t start = now;
    const int64_t later = start + (now - start) * 1'000'000;
    time->tv_sec = later / kSecond;
    time->tv_nsec = later % kSecond;
  }
  return result;
}
