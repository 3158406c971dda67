#pragma once

#include <ctime>

namespace heed::test {

/// Whether the library counts what runs (./dev coverage), which makes it many times as slow.
bool counted();

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// Tests that were built for another processor run in an emulator (./dev test arm).
#if defined(HEED_EMULATED)
inline constexpr bool kEmulated = true;
#else
inline constexpr bool kEmulated = false;
#endif

/// A limit of time or memory. A sanitizer, an emulator or counters make a program many times as
/// slow and large, so that only what has left all bounds is noticed there.
template <class T>
T budget(T limit) {
  return kSanitized || kEmulated || counted() ? limit * 40 : limit;
}

/// Seconds of processor time that a call takes, of all threads together: unlike the time of day, it
/// does not depend on what else the machine does.
template <class Call>
double cpu_seconds(const Call& call) {
  const std::clock_t before = std::clock();
  call();
  return static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
}

}  // namespace heed::test
