#include "base/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <vector>

namespace heed {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(Arena, AFreedBlockServesSmallerOnesAndIsWholeAgain) {
  Arena arena;
  auto* whole = static_cast<char*>(arena.take(48 * kMiB));
  const int64_t mapped = arena.mapped();
  arena.give(whole, 48 * kMiB);
  std::vector<void*> parts;
  for (int i = 0; i < 6; ++i) {
    parts.push_back(arena.take(8 * kMiB));
    std::memset(parts.back(), i, static_cast<size_t>(8 * kMiB));
  }
  for (int i = 0; i < 6; ++i) {
    const auto* bytes = static_cast<const char*>(parts[static_cast<size_t>(i)]);
    EXPECT_EQ(bytes[0], i);
    EXPECT_EQ(bytes[8 * kMiB - 1], i);
  }
  for (const int i : {1, 4, 0, 5, 3, 2}) {  // neighbours join in any order
    arena.give(parts[static_cast<size_t>(i)], 8 * kMiB);
  }
  EXPECT_EQ(arena.take(48 * kMiB), whole);
  EXPECT_EQ(arena.mapped(), mapped);
}

TEST(Arena, TakesTheSmallestRangeThatIsLargeEnough) {
  Arena arena;
  void* wide = arena.take(16 * kMiB);
  void* first = arena.take(kMiB);
  void* narrow = arena.take(4 * kMiB);
  void* second = arena.take(kMiB);
  arena.give(wide, 16 * kMiB);
  arena.give(narrow, 4 * kMiB);
  EXPECT_EQ(arena.take(3 * kMiB), narrow);
  EXPECT_EQ(arena.take(10 * kMiB), wide);
  EXPECT_NE(first, second);
}

TEST(Arena, ReleaseKeepsWhatIsInUse) {
  Arena arena;
  auto* kept = static_cast<char*>(arena.take(2 * kMiB));
  void* freed = arena.take(100 * kMiB);
  std::memset(kept, 7, static_cast<size_t>(2 * kMiB));
  arena.give(freed, 100 * kMiB);
  arena.release();
  EXPECT_EQ(arena.mapped(), 2 * kMiB);
  EXPECT_EQ(kept[2 * kMiB - 1], 7);
  arena.give(kept, 2 * kMiB);
  arena.release();
  EXPECT_EQ(arena.mapped(), 0);
}

TEST(Arena, SaysWhereThereIsNoMemory) {
  Arena arena;
  EXPECT_EQ(arena.take(int64_t{1} << 55), nullptr);
  EXPECT_EQ(arena.mapped(), 0);
}

// Batches of changing lengths, as in translation: what is mapped stays near what is used.
TEST(Arena, ChangingSizesShareTheirMemory) {
  Arena arena;
  std::mt19937 random(7);
  int64_t peak = 0;
  for (int step = 0; step < 200; ++step) {
    const int64_t length = 8 + static_cast<int64_t>(random() % 60);
    std::vector<std::pair<void*, int64_t>> blocks;
    int64_t used = 0;
    for (int layer = 0; layer < 40; ++layer) {
      const int64_t bytes = length * (1 + layer % 4) * 131072;
      blocks.emplace_back(arena.take(bytes), bytes);
      ASSERT_NE(blocks.back().first, nullptr);
      used += bytes;
    }
    peak = std::max(peak, used);
    while (!blocks.empty()) {
      arena.give(blocks.back().first, blocks.back().second);
      blocks.pop_back();
    }
  }
  EXPECT_LT(arena.mapped(), peak * 3 / 2);
}

// No two live blocks overlap, whatever the order of taking and giving.
TEST(Arena, LiveBlocksNeverOverlap) {
  Arena arena;
  std::mt19937 random(3);
  std::map<char*, int64_t> live;
  for (int step = 0; step < 5000; ++step) {
    if (live.size() < 30 || random() % 2 == 0) {
      const int64_t size = kMiB + static_cast<int64_t>(random() % 1536) * 4096;
      auto* block = static_cast<char*>(arena.take(size));
      const auto next = live.lower_bound(block);
      ASSERT_TRUE(next == live.end() || block + size <= next->first);
      ASSERT_TRUE(next == live.begin() ||
                  std::prev(next)->first + std::prev(next)->second <= block);
      live[block] = size;
    } else {
      auto victim = std::next(live.begin(), static_cast<int64_t>(random() % live.size()));
      arena.give(victim->first, victim->second);
      live.erase(victim);
    }
  }
}

}  // namespace
}  // namespace heed
