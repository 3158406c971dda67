#pragma once

namespace heed::test {

/// A limit of time or memory. A sanitizer makes a program many times as slow and large, so that its
/// builds only notice what has left all bounds.
template <class T>
constexpr T budget(T limit) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return limit * 40;
#else
  return limit;
#endif
}

}  // namespace heed::test
