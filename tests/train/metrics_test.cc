#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "heed/runtime.h"
#include "heed/train.h"
#include "io/json.h"
#include "support/data.h"
#include "support/error.h"

namespace heed::test {
namespace {

constexpr double kDigits = 1e-9;  // sacreBLEU and heed do the same sums in f64

void expect_scores(const std::vector<std::string>& results,
                   const std::vector<std::string>& references, const Json& wanted,
                   const std::string& name) {
  const Bleu bleu = corpus_bleu(results, references);
  EXPECT_NEAR(bleu.score, wanted.number("bleu", 0, 101), kDigits) << name;
  EXPECT_NEAR(bleu.brevity, wanted.number("brevity", 0, 1), kDigits) << name;
  for (size_t n = 0; n < 4; ++n) {
    EXPECT_NEAR(bleu.precisions[n], wanted.at("precisions")[n].number(), kDigits) << name << n;
  }
  EXPECT_NEAR(corpus_chrf(results, references), wanted.number("chrf", 0, 101), kDigits) << name;
}

/// The same damage as tests/golden/generate_scores.py does.
std::string damaged(const std::string& line, size_t index) {
  std::vector<std::string> words(1);
  for (const char c : line) {
    if (c == ' ') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  if (words.size() > 3) {
    words.erase(words.begin() + static_cast<int64_t>(index % words.size()));
    if (index % 2 == 1) {
      std::swap(words[0], words[1]);
    }
    if (index % 5 == 0) {
      words.emplace_back("und");
    }
  }
  std::string result;
  for (size_t i = 0; i < words.size(); ++i) {
    result += (i == 0 ? "" : " ") + words[i];
  }
  return result;
}

TEST(Metrics, BleuAndChrfAreSacreBleus) {
  const Json file = Json::read(golden("scores/scores.json"));
  for (const Json& one : file.at("cases").elements()) {
    expect_scores(one.at("results").strings(), one.at("references").strings(), one,
                  one.string("name"));
  }
}

TEST(Metrics, BleuAndChrfOfMulti30k) {
  HEED_NEEDS_SHARED("multi30k");
  const Json file = Json::read(golden("scores/scores.json"));
  for (const char* side : {"de", "en"}) {
    std::ifstream text(shared_data(std::string("multi30k/test_2016_flickr.") + side));
    std::vector<std::string> results, references;
    for (std::string line; references.size() < 1000 && std::getline(text, line);) {
      results.push_back(damaged(line, references.size()));
      references.push_back(line);
    }
    ASSERT_EQ(references.size(), 1000u);
    expect_scores(results, references, file.at(side), side);
  }
}

TEST(Metrics, ClassesByHand) {
  // Class 0: 2 right of 3 true and 2 predicted; class 1: 1 of 1 and 2; class 2 never occurs.
  const ClassScores scores = class_scores({0, 0, 0, 1}, {0, 0, 1, 1}, 3);
  EXPECT_DOUBLE_EQ(scores.accuracy, 0.75);
  EXPECT_DOUBLE_EQ(scores.macro_f1, (4.0 / 5.0 + 2.0 / 3.0) / 2.0);
  EXPECT_DOUBLE_EQ(class_scores({0, 0, 0, 1}, {0, 0, 1, 1}, 2).binary_f1, 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(class_scores({0, 0}, {0, 0}, 2).binary_f1, 0.0);
  EXPECT_DOUBLE_EQ(class_scores({}, {}, 2).accuracy, 0.0);
  EXPECT_ERROR(class_scores({0, 2}, {0, 0}, 2),
               "class scores: class 2 or 0 is not below 2, the number of classes");
  EXPECT_ERROR(class_scores({0}, {}, 2), "class scores: 0 predictions for 1 labels");
}

TEST(Metrics, ExactMatchLooksPastSpacesAtTheEnds) {
  EXPECT_DOUBLE_EQ(exact_match({" a b ", "a  b", "고양이\n"}, {"a b", "a b", "고양이"}), 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(exact_match({}, {}), 0.0);
  // One word changed, one left out, one put in, of nine; case and marks at the ends do not count.
  EXPECT_DOUBLE_EQ(word_error_rate({"And so, my fellow", "ask not what country can do do"},
                                   {"and so my FELLOW.", "Ask not that your country can do"}),
                   3.0 / 11.0);
  EXPECT_DOUBLE_EQ(word_error_rate({"a"}, {""}), 0.0);
  EXPECT_ERROR(corpus_bleu({"a"}, {}), "bleu: 1 results for 0 references");
}

}  // namespace
}  // namespace heed::test
