#include "dist/communicator.h"

#include <gtest/gtest.h>

#include "data/tokenize_ranks.h"
#include "dist/placement.h"
#include "heed/runtime.h"
#include "support/error.h"

namespace heed {
namespace {

TEST(Communicator, OneProcessIsARankOfOne) {
  Communicator& ranks = world();
  EXPECT_EQ(ranks.size(), 1);
  EXPECT_TRUE(ranks.is_root());
  EXPECT_EQ(ranks.gather("abc"), std::vector<std::string>{"abc"});
  EXPECT_EQ(ranks.broadcast(std::string("text")), "text");
  EXPECT_EQ(ranks.sum({1.5, -2.0}), (std::vector<double>{1.5, -2.0}));
  EXPECT_EQ(ranks.max({1.5, -2.0}), (std::vector<double>{1.5, -2.0}));
  float values[2] = {1.0f, 2.0f};
  ranks.start_sum(values, 2, true);
  ranks.finish();
  EXPECT_EQ(values[1], 2.0f);
  EXPECT_NO_THROW(check_same(ranks, "option", "lr = 1\n"));
}

TEST(Communicator, OneProcessKeepsItsThreads) {
  const int before = thread_count();
  EXPECT_EQ(place_threads(world(), 0), "");
  EXPECT_EQ(thread_count(), before);
}

/// Two ranks as one of them sees them: what the other says is fixed.
class Pair final : public Communicator {
 public:
  explicit Pair(std::string other) : other_(std::move(other)) { size_ = 2; }
  std::vector<std::string> gather(std::string_view mine) override {
    return {std::string(mine), other_};
  }
  void broadcast(void*, size_t) override {}
  void start_sum(float*, int64_t, bool) override {}
  void start_all_gather(float*, int64_t) override {}
  void finish() override {}
  double take_busy_seconds() override { return 0.0; }
  [[noreturn]] void abort(int code) override { std::exit(code); }

 private:
  std::string other_;
};

TEST(Communicator, SumsInTheOrderOfTheRanksAndRefusesAnotherLength) {
  const double other[2] = {0.25, 8.0};
  Pair ranks(std::string(reinterpret_cast<const char*>(other), sizeof other));
  EXPECT_EQ(ranks.sum({1.0, 2.0}), (std::vector<double>{1.25, 10.0}));
  EXPECT_EQ(ranks.max({1.0, 9.0}), (std::vector<double>{1.0, 9.0}));
  EXPECT_ERROR(ranks.sum({1.0}), "ranks: 16 bytes came for 1 numbers");
}

TEST(Communicator, AnotherTextIsRefusedByName) {
  Pair ranks("0000000000000000");
  try {
    check_same(ranks, "option", "lr = 1\n");
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1 has another option than rank 0"),
              std::string::npos)
        << error.what();
    EXPECT_EQ(error.kind(), ErrorKind::usage);
  }
}

TEST(TokenizeShare, AllMustHaveItAndMeanTheSame) {
  EXPECT_TRUE(all_have(true, 7, "data"));  // alone
  EXPECT_FALSE(all_have(false, 7, "data"));
  std::string other = "00000000000000071";
  const TokenizeTogether together({0, 2, [&](std::string_view mine) {
                                     return std::vector<std::string>{std::string(mine), other};
                                   }});
  EXPECT_TRUE(all_have(true, 7, "data"));
  EXPECT_FALSE(all_have(false, 7, "data"));
  other.back() = '0';
  EXPECT_FALSE(all_have(true, 7, "data"));
  EXPECT_ERROR(all_have(true, 8, "data"),
               "ranks: rank 1 has another data set in data, or another tokenizer, than rank 0");
}

}  // namespace
}  // namespace heed
