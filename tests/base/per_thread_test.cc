#include "base/per_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace heed::test {
namespace {

std::atomic<int> g_alive{0};

struct Counted {
  Counted() { ++g_alive; }
  ~Counted() { --g_alive; }
  int value = 0;
};

Counted& counted() {
  thread_local PerThread<Counted> kept;
  return kept.get();
}

TEST(PerThread, EachThreadHasItsOwnUntilItEnds) {
  counted().value = 7;
  const int before = g_alive;
  std::thread([&] {
    EXPECT_EQ(counted().value, 0);
    counted().value = 8;
    EXPECT_EQ(counted().value, 8);
    EXPECT_EQ(g_alive, before + 1);
    thread_local PerThread<Counted> second;
    second.get();
    EXPECT_EQ(g_alive, before + 2);
  }).join();
  EXPECT_EQ(g_alive, before);
  EXPECT_EQ(counted().value, 7);
}

}  // namespace
}  // namespace heed::test
