#include "base/parallel.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/prefetch.h"
#include "heed/runtime.h"
#include "support/budget.h"
#include "support/error.h"

namespace heed {
namespace {

class Threads : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { set_thread_count(GetParam()); }
  void TearDown() override { set_thread_count(2); }
};

TEST_P(Threads, EveryTileRunsExactlyOnce) {
  for (int repeat = 0; repeat < 300; ++repeat) {
    const int64_t tiles = repeat % 37;
    std::vector<std::atomic<int>> hits(static_cast<size_t>(tiles));
    parallel_for(tiles, [&](int64_t tile) { hits[static_cast<size_t>(tile)]++; });
    for (const auto& hit : hits) {
      ASSERT_EQ(hit.load(), 1);
    }
  }
}

TEST_P(Threads, ExceptionReachesTheCallerAndThePoolGoesOn) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    EXPECT_THROW(parallel_for(16,
                              [](int64_t tile) {
                                if (tile == 7) {
                                  throw std::runtime_error("seven");
                                }
                              }),
                 std::runtime_error);
    std::atomic<int> count{0};
    parallel_for(16, [&](int64_t) { count++; });
    EXPECT_EQ(count.load(), 16);
  }
}

TEST_P(Threads, NestedCallsRunSerially) {
  std::atomic<int> count{0};
  parallel_for(8, [&](int64_t) {
    EXPECT_TRUE(inside_parallel());
    parallel_for(8, [&](int64_t) { count++; });
  });
  EXPECT_EQ(count.load(), 64);
  EXPECT_FALSE(inside_parallel());
}

TEST_P(Threads, RangesCoverTheCount) {
  std::vector<int> seen(1000, 0);
  parallel_ranges(1000, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      seen[static_cast<size_t>(i)]++;
    }
  });
  EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), 0), 1000);
}

INSTANTIATE_TEST_SUITE_P(Counts, Threads, testing::Values(1, 2, 5));

TEST(Parallel, ConcurrentCallersBothFinish) {
  set_thread_count(3);
  std::atomic<int> count{0};
  auto loop = [&] {
    for (int i = 0; i < 200; ++i) {
      parallel_for(9, [&](int64_t) { count++; });
    }
  };
  std::thread other(loop);
  loop();
  other.join();
  EXPECT_EQ(count.load(), 2 * 200 * 9);
  set_thread_count(2);
}

/// What idle threads fetch is never read: it may lie nowhere, and change at any time.
TEST(Parallel, FetchingAheadTouchesNothing) {
  void* page = mmap(nullptr, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  munmap(page, 1 << 20);
  std::atomic<int> count{0};
  for (int i = 0; i < 200; ++i) {
    prefetch_while_idle(i % 2 == 0 ? page : nullptr, i % 2 == 0 ? 1 << 20 : 0);
    parallel_for(5, [&](int64_t) { count++; });
  }
  prefetch_while_idle(nullptr, 0);
  EXPECT_EQ(count.load(), 200 * 5);
}

TEST_P(Threads, AStopIsNoticedBetweenTwoTiles) {
  std::stop_source source;
  std::atomic<int> count{0};
  {
    const StopScope scope(source.get_token());
    parallel_for(50, [&](int64_t) { count++; });
    EXPECT_EQ(count.load(), 50);
    EXPECT_THROW(parallel_for(100000,
                              [&](int64_t) {
                                if (++count == 60) {
                                  source.request_stop();
                                }
                              }),
                 Stopped);
    EXPECT_LT(count.load(), 100000);
    EXPECT_THROW(parallel_for(1, [](int64_t) {}), Stopped);
    const StopScope inner{std::stop_token()};  // without a source: the outer one's holds
    EXPECT_THROW(parallel_for(1, [](int64_t) {}), Stopped);
  }
  parallel_for(50, [&](int64_t) { count = 7; });  // the scope is over, the pool goes on
  EXPECT_EQ(count.load(), 7);
}

TEST_P(Threads, AnErrorOrAStopLeavesTheRest) {
  constexpr int64_t kTiles = 3'000'000;
  std::atomic<int64_t> count{0};
  EXPECT_THROW(parallel_for(kTiles,
                            [&](int64_t) {
                              if (++count == 3) {
                                throw std::runtime_error("three");
                              }
                            }),
               std::runtime_error);
  EXPECT_LT(count.load(), kTiles / 2);
  // Tiles that are left cost nothing: not an exception each, nor even a claim.
  const double whole = test::cpu_seconds([&] { parallel_for(kTiles, [&](int64_t) { count++; }); });
  std::stop_source source;
  source.request_stop();
  const StopScope scope(source.get_token());
  const double stopped =
      test::cpu_seconds([] { EXPECT_THROW(parallel_for(kTiles, [](int64_t) {}), Stopped); });
  EXPECT_LT(stopped, whole);
}

/// Exit code of a forked child that runs a loop; 0 where every tile ran.
int loop_in_a_child() {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a child that waits for threads of its parent would never end
    std::atomic<int> count{0};
    parallel_for(64, [&](int64_t) { count++; });
    _exit(count == 64 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_P(Threads, AForkedChildStartsItsOwnThreads) {
  std::atomic<int> count{0};
  parallel_for(64, [&](int64_t) { count++; });  // the parent's threads exist
  EXPECT_EQ(loop_in_a_child(), 0);
  // And while another thread of the parent computes.
  std::atomic<bool> done{false};
  std::thread busy([&] {
    while (!done) {
      parallel_for(16, [&](int64_t) { count++; });
    }
  });
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(loop_in_a_child(), 0);
  }
  done = true;
  busy.join();
}

TEST(Parallel, RefusesSillyThreadCounts) {
  EXPECT_ERROR(set_thread_count(0), "threads: 0 is out of range; give 1 to 1024");
  EXPECT_ERROR(set_thread_count(1000000), "threads: 1000000 is out of range; give 1 to 1024");
}

}  // namespace
}  // namespace heed
