// Every golden model, and a fresh one of every other architecture that heed knows, on the explorer:
// nothing that heed runs is refused, and what is shown adds up.
#include <gtest/gtest.h>

#include <set>

#include "explore/family_page.h"

namespace heed::test {
namespace {

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden("models"))) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, IsShownWhole) {
  const auto path = golden("models/" + GetParam());
  Page page(load_model(path), path);
  check_family(page);
}

INSTANTIATE_TEST_SUITE_P(Families, Golden, testing::ValuesIn(golden_names()),
                         [](const auto& of) { return of.param; });

/// Architectures that no golden model is of.
std::vector<std::string> other_types() {
  std::set<std::string> types;
  for (const std::string& type : known_model_types()) {
    types.insert(type);
  }
  for (const std::string& name : golden_names()) {
    const auto file = golden("models/" + name) / "config.json";
    types.erase(Json::parse(read_file(file), "config.json").string("model_type"));
  }
  return {types.begin(), types.end()};
}

TEST(Registry, EveryOtherArchitectureIsShown) {
  int64_t shown = 0;
  for (const std::string& type : other_types()) {
    SCOPED_TRACE(type);
    const std::string config = small_config(type);
    if (config.empty()) {
      EXPECT_EQ(type, "rag");  // see Rag below
      continue;
    }
    Page page(create_model(config, 5));
    const bool numbers = page.about->string("answers") == "number";
    page.open(numbers ? "1 2 3" : "abcabd");
    ASSERT_TRUE(page.trace->has("attentions"));
    EXPECT_GT(page.trace->at("attentions").size(), 0U);
    check_answers(page);
    check_attentions(page);
    ++shown;
  }
  EXPECT_GE(shown, 5);
}

}  // namespace
}  // namespace heed::test
