#include "base/segment_heap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <vector>

namespace heed {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(SegmentHeap, FreedNeighboursGrowTogether) {
  SegmentHeap heap;
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) {
    blocks.push_back(heap.take(8 * kMiB));
  }
  const int64_t reserved = heap.reserved();
  EXPECT_EQ(reserved, 64 * kMiB);
  for (const int i : {1, 3, 2, 0, 7, 5, 6, 4}) {
    heap.give(blocks[static_cast<size_t>(i)]);
  }
  void* whole = heap.take(64 * kMiB);
  EXPECT_EQ(whole, blocks[0]);
  EXPECT_EQ(heap.reserved(), reserved);
  heap.give(whole);
  heap.release();
  EXPECT_EQ(heap.reserved(), 0);
}

TEST(SegmentHeap, TakesTheSmallestPieceThatFits) {
  SegmentHeap heap;
  void* five = heap.take(5 * kMiB);
  void* wall = heap.take(kMiB);
  void* two = heap.take(2 * kMiB);
  void* other_wall = heap.take(kMiB);
  heap.give(five);
  heap.give(two);
  EXPECT_EQ(heap.take(2 * kMiB), two);
  EXPECT_EQ(heap.take(4 * kMiB), five);
  EXPECT_NE(wall, other_wall);
}

TEST(SegmentHeap, SegmentsInUseStay) {
  SegmentHeap heap;
  void* kept = heap.take(20 * kMiB);
  void* gone = heap.take(30 * kMiB);
  heap.give(gone);
  heap.release();
  EXPECT_EQ(heap.reserved(), 20 * kMiB);
  std::memset(kept, 1, static_cast<size_t>(20 * kMiB));  // still mapped
  heap.give(kept);
}

// Batches of changing lengths, as in translation: what is mapped stays near what is used.
TEST(SegmentHeap, ChangingSizesShareTheirMemory) {
  SegmentHeap heap;
  std::mt19937 random(7);
  int64_t peak = 0;
  for (int step = 0; step < 200; ++step) {
    const int64_t length = 8 + static_cast<int64_t>(random() % 60);
    std::vector<void*> blocks;
    int64_t used = 0;
    for (int layer = 0; layer < 40; ++layer) {
      const int64_t bytes = length * (1 + layer % 4) * 131072;
      blocks.push_back(heap.take(bytes));
      ASSERT_NE(blocks.back(), nullptr);
      used += SegmentHeap::rounded(bytes);
    }
    peak = std::max(peak, used);
    while (!blocks.empty()) {
      heap.give(blocks.back());
      blocks.pop_back();
    }
  }
  EXPECT_LT(heap.reserved(), peak * 3 / 2);
}

// No two live blocks overlap, whatever the order of taking and giving.
TEST(SegmentHeap, LiveBlocksNeverOverlap) {
  SegmentHeap heap;
  std::mt19937 random(3);
  std::map<char*, int64_t> live;
  for (int step = 0; step < 5000; ++step) {
    if (live.size() < 30 || random() % 2 == 0) {
      const int64_t size = SegmentHeap::rounded(kMiB + static_cast<int64_t>(random() % (6 * kMiB)));
      auto* block = static_cast<char*>(heap.take(size));
      const auto next = live.lower_bound(block);
      ASSERT_TRUE(next == live.end() || block + size <= next->first);
      ASSERT_TRUE(next == live.begin() ||
                  std::prev(next)->first + std::prev(next)->second <= block);
      live[block] = size;
    } else {
      auto victim = std::next(live.begin(), static_cast<int64_t>(random() % live.size()));
      heap.give(victim->first);
      live.erase(victim);
    }
  }
}

}  // namespace
}  // namespace heed
