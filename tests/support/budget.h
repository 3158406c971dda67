#pragma once

#include <ctime>

namespace heed::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// A limit of time or memory. A sanitizer makes a program many times as slow and large, so that its
/// builds only notice what has left all bounds.
template <class T>
constexpr T budget(T limit) {
  return kSanitized ? limit * 40 : limit;
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
