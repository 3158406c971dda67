#pragma once

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

}  // namespace heed::test
