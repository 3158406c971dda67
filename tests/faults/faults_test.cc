// Every line of the fault table, tried on the program from outside. Run it whole for the summary:
// build/bin/test_faults prints "tried N, right N" at the end.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "faults/bench.h"

namespace heed::test {
namespace {

int g_tried = 0;
int g_right = 0;

std::vector<Fault> all_faults() {
  std::vector<Fault> all;
  for (auto* part : {safetensors_faults, gguf_faults, model_faults, command_faults, training_faults,
                     number_faults, rank_faults, server_faults, other_faults}) {
    for (Fault& fault : part()) {
      all.push_back(std::move(fault));
    }
  }
  std::sort(all.begin(), all.end(), [](const Fault& a, const Fault& b) { return a.line < b.line; });
  return all;
}

class Faults : public testing::TestWithParam<int> {};

TEST_P(Faults, Line) {
  for (const Fault& fault : all_faults()) {
    if (fault.line != GetParam()) {
      continue;
    }
    Bench bench(fault.line);
    fault.provoke(bench);
    if (!bench.skipped().empty()) {
      GTEST_SKIP() << fault.title << ": " << bench.skipped();
    }
    std::printf("%3d  %-60s %d of %d\n", fault.line, fault.title, bench.right(), bench.tried());
    g_tried += bench.tried();
    g_right += bench.right();
    for (const std::string& problem : bench.problems()) {
      ADD_FAILURE() << problem;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Faults, testing::Range(1, 107));

TEST(FaultTable, HasEveryLineOnce) {
  std::set<int> lines;
  for (const Fault& fault : all_faults()) {
    EXPECT_TRUE(lines.insert(fault.line).second) << "line " << fault.line << " is there twice";
  }
  EXPECT_EQ(lines.size(), 106u);
}

class Summary : public testing::Environment {
 public:
  void TearDown() override { std::printf("tried %d, right %d\n", g_tried, g_right); }
};
const auto* const kSummary = testing::AddGlobalTestEnvironment(new Summary);

}  // namespace
}  // namespace heed::test
