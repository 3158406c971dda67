// Every line of the fault table, tried on the program from outside. Run it whole for the summary:
// build/bin/test_faults prints "tried N, right N" at the end.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <string>

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
  std::stable_sort(all.begin(), all.end(),
                   [](const Fault& a, const Fault& b) { return a.line < b.line; });
  return all;
}

class Faults : public testing::TestWithParam<int> {};

/// A line may have parts that need different things of the machine; it is skipped where no part
/// could be tried.
TEST_P(Faults, Line) {
  std::string skipped;
  bool tried = false;
  for (const Fault& fault : all_faults()) {
    if (fault.line != GetParam()) {
      continue;
    }
    Bench bench(fault.line);
    fault.provoke(bench);
    if (!bench.skipped().empty()) {
      skipped += std::string(fault.title) + ": " + bench.skipped() + "\n";
      continue;
    }
    tried = true;
    std::printf("%3d  %-60s %d of %d\n", fault.line, fault.title, bench.right(), bench.tried());
    g_tried += bench.tried();
    g_right += bench.right();
    for (const std::string& problem : bench.problems()) {
      ADD_FAILURE() << problem;
    }
  }
  if (!tried) {
    GTEST_SKIP() << skipped;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Faults, testing::Range(1, 107));

TEST(FaultTable, HasEveryLine) {
  std::set<int> lines;
  std::set<std::string> titles;
  for (const Fault& fault : all_faults()) {
    EXPECT_TRUE(fault.line >= 1 && fault.line <= 106) << fault.line;
    EXPECT_TRUE(titles.insert(fault.title).second) << fault.title << " is there twice";
    lines.insert(fault.line);
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
