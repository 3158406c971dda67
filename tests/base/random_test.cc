#include <gtest/gtest.h>

#include "heed/runtime.h"

namespace heed {
namespace {

// Known answers of the Random123 distribution (kat_vectors, philox4x32, 10 rounds).
TEST(Philox, MatchesTheKnownAnswers) {
  EXPECT_EQ(philox(0, 0, 0),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Random, SeekReplays) {
  Random random(7, 3);
  for (int i = 0; i < 5; ++i) {
    random.next_u32();
  }
  const uint64_t position = random.position();
  const uint64_t value = random.next_u64();
  random.seek(position);
  EXPECT_EQ(random.next_u64(), value);
}

TEST(Random, MomentsOfTheNormal) {
  Random random(1);
  double sum = 0;
  double squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kCount, 0.0, 0.02);
  EXPECT_NEAR(squares / kCount, 1.0, 0.02);
}

TEST(Random, BelowStaysBelow) {
  Random random(2);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_LT(random.below(7), 7u);
  }
}

TEST(RandomState, StreamsAdvanceAndReplay) {
  manual_seed(9);
  const RandomState start = random_state();
  const RandomKey first = next_random_key();
  const RandomKey second = next_random_key();
  EXPECT_NE(first.stream, second.stream);
  set_random_state(start);
  EXPECT_EQ(next_random_key().stream, first.stream);
}

}  // namespace
}  // namespace heed
