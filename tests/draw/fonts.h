#pragma once

#include <gtest/gtest.h>

/// At the head of a test whose picture has text: Pango looks for fonts in a thread of its own, and
/// the locks of GLib and fontconfig are not compiled for the thread sanitizer, which reports them.
#if defined(__SANITIZE_THREAD__)
#define HEED_DRAWS_TEXT \
  GTEST_SKIP() << "thread sanitizer: GLib and fontconfig are not compiled for it"
#else
#define HEED_DRAWS_TEXT static_assert(true)
#endif
