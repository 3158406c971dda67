#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "heed/lessons.h"
#include "heed/runtime.h"
#include "lessons/hangul.h"
#include "support/data.h"
#include "support/error.h"

namespace heed {
namespace {

std::string bare(const std::string& word, Language language) {
  if (language == Language::english) {
    return word;
  }
  const std::vector<std::string> answers = coreference_answers(language);
  std::string longest;
  for (const std::string& answer : answers) {
    if (word.starts_with(answer) && answer.size() > longest.size()) {
      longest = answer;
    }
  }
  return longest;
}

class Coreference : public testing::TestWithParam<Language> {};

TEST_P(Coreference, MarksPointAtWhatTheyName) {
  SyntheticOptions options;
  options.language = GetParam();
  const std::vector<std::string> words = coreference_words(options.language);
  const std::vector<std::string> answers = coreference_answers(options.language);
  std::set<std::string> adjectives;
  std::set<std::vector<int>> layouts;
  for (const CoreferenceExample& example : coreference_examples(options, 4000)) {
    for (const std::string& word : example.words) {
      ASSERT_TRUE(std::binary_search(words.begin(), words.end(), word)) << word;
    }
    const std::string& it = example.words.at(example.query);
    ASSERT_TRUE(it == "it" || it == "그것은" || it == "그것이") << it;
    ASSERT_EQ(bare(example.words.at(example.referent), options.language), example.answer);
    ASSERT_TRUE(std::find(example.candidates.begin(), example.candidates.end(), example.referent) !=
                example.candidates.end());
    ASSERT_GE(example.candidates.size(), 2u);
    for (const int candidate : example.candidates) {
      ASSERT_TRUE(std::binary_search(answers.begin(), answers.end(),
                                     bare(example.words.at(candidate), options.language)));
    }
    adjectives.insert(example.words.at(example.evidence));
    layouts.insert({example.query, example.referent, example.evidence});
  }
  EXPECT_EQ(adjectives.size(), 24u);
  EXPECT_GT(layouts.size(), 30u);  // word order varies
}

TEST_P(Coreference, AdjectiveDecidesTheKind) {
  SyntheticOptions options;
  options.language = GetParam();
  std::map<std::string, std::set<std::string>> answers_of;
  for (const CoreferenceExample& example : coreference_examples(options, 6000)) {
    answers_of[example.words[example.evidence]].insert(example.answer);
  }
  // The answers of an adjective are the animals or the places, 24 of each, never both.
  for (const auto& [adjective, answers] : answers_of) {
    EXPECT_LE(answers.size(), 24u) << adjective;
    for (const auto& [other, others] : answers_of) {
      std::vector<std::string> both;
      std::set_intersection(answers.begin(), answers.end(), others.begin(), others.end(),
                            std::back_inserter(both));
      EXPECT_TRUE(both.empty() || both.size() > 15) << adjective << " and " << other;
    }
  }
}

TEST_P(Coreference, HeldOutPairsNeverMeetInTraining) {
  SyntheticOptions options;
  options.language = GetParam();
  std::set<std::pair<std::string, std::string>> seen;
  std::set<std::string> nouns;
  for (const CoreferenceExample& example : coreference_examples(options, 20000)) {
    for (const int a : example.candidates) {
      for (const int b : example.candidates) {
        seen.emplace(bare(example.words[a], options.language),
                     bare(example.words[b], options.language));
      }
    }
    nouns.insert(example.answer);
  }
  EXPECT_EQ(nouns.size(), 48u);  // every noun is learned
  const auto main_pair = [&](const CoreferenceExample& example) {
    // With two candidates only, they are the pair of the main clause.
    return std::pair(bare(example.words[example.candidates[0]], options.language),
                     bare(example.words[example.candidates[1]], options.language));
  };
  options.held_out = true;
  int simple = 0;
  for (const CoreferenceExample& example : coreference_examples(options, 1000)) {
    if (example.candidates.size() == 2) {
      ++simple;
      EXPECT_FALSE(seen.contains(main_pair(example))) << example.text();
    }
  }
  EXPECT_GT(simple, 300);
  for (const CoreferenceExample& example : coreference_tutorial(options.language)) {
    EXPECT_FALSE(seen.contains(main_pair(example))) << example.text();
  }
}

TEST_P(Coreference, SameSeedSameSentences) {
  SyntheticOptions options;
  options.language = GetParam();
  const auto first = coreference_examples(options, 20);
  EXPECT_EQ(first[7].words, coreference_example(options, 7).words);
  options.seed = 1;
  EXPECT_NE(first[7].words, coreference_example(options, 7).words);
}

INSTANTIATE_TEST_SUITE_P(Languages, Coreference,
                         testing::Values(Language::english, Language::korean));

TEST(CoreferenceTutorial, IsTheTutorials) {
  const auto english = coreference_tutorial(Language::english);
  EXPECT_EQ(english[0].text(), "The animal didn't cross the street because it was too tired .");
  EXPECT_EQ(english[1].text(), "The animal didn't cross the street because it was too wide .");
  EXPECT_EQ(english[0].answer, "animal");
  EXPECT_EQ(english[1].referent, 5);
  const auto korean = coreference_tutorial(Language::korean);
  EXPECT_EQ(korean[0].text(), "그 동물은 길을 건너지 않았다 . 그것은 너무 피곤했기 때문이다 .");
  EXPECT_EQ(korean[1].words[korean[1].referent], "길을");
}

TEST(Hangul, ParticlesFollowTheFinalConsonant) {
  EXPECT_EQ(with_particle("동물", Particle::topic), "동물은");
  EXPECT_EQ(with_particle("고양이", Particle::topic), "고양이는");
  EXPECT_EQ(with_particle("곰", Particle::subject), "곰이");
  EXPECT_EQ(with_particle("소", Particle::object), "소를");
  EXPECT_EQ(with_particle("양", Particle::with), "양과");
  EXPECT_FALSE(ends_in_consonant("a"));
  EXPECT_FALSE(ends_in_consonant(""));
  EXPECT_EQ(korean_number(2016), "이천십육");
  EXPECT_EQ(korean_number(1950), "천구백오십");
  EXPECT_EQ(korean_number(11), "십일");
}

TEST(Synthetic, PairsFollowTheirRules) {
  SyntheticOptions options;
  for (uint64_t i = 0; i < 500; ++i) {
    const TextPair sum = addition_example(options, i);
    const size_t plus = sum.source.find('+');
    EXPECT_EQ(std::stoi(sum.source) + std::stoi(sum.source.substr(plus + 1)),
              std::stoi(sum.target));
    const TextPair reversed = reverse_example(options, i);
    EXPECT_EQ(std::string(reversed.source.rbegin(), reversed.source.rend()), reversed.target);
    const TextPair same = copy_example(options, i);
    EXPECT_EQ(same.source, same.target);
    const NumberExample numbers = plus_two_example(options, i);
    ASSERT_EQ(numbers.input.size(), 5u);
    for (size_t k = 0; k < 5; ++k) {
      EXPECT_EQ(numbers.input[k] + 2, numbers.target[k]);
      EXPECT_GE(numbers.input[k], 0);
      EXPECT_LE(numbers.input[k], 100);
    }
  }
}

TEST(Synthetic, DatesKeepTheirNumbers) {
  for (const Language language : {Language::english, Language::korean}) {
    SyntheticOptions options;
    options.language = language;
    std::set<std::string> targets;
    for (uint64_t i = 0; i < 1000; ++i) {
      const TextPair pair = date_example(options, i);
      ASSERT_EQ(pair.target.size(), 10u);
      targets.insert(pair.target);
      if (pair.source.find(pair.target.substr(0, 4)) != std::string::npos) {
        const std::string day = std::to_string(std::stoi(pair.target.substr(8)));
        EXPECT_NE(pair.source.find(day), std::string::npos) << pair.source << pair.target;
      }
    }
    EXPECT_GT(targets.size(), 950u);
  }
}

TEST(Synthetic, ShapesShowTheirColors) {
  SyntheticOptions options;
  std::set<std::string> captions;
  for (uint64_t i = 0; i < 200; ++i) {
    const ShapesExample example = shapes_example(options, i);
    ASSERT_EQ(example.pixels.shape(), Shape({32, 32, 3}));
    captions.insert(example.caption);
    if (example.caption.find("left of") == std::string::npos) {
      continue;
    }
    // The columns of the first colour lie left of the second's on average.
    const auto* pixels = example.pixels.data<uint8_t>();
    int drawn = 0;
    for (int k = 0; k < 32 * 32; ++k) {
      drawn += pixels[3 * k] != 245 || pixels[3 * k + 1] != 245;
    }
    EXPECT_GT(drawn, 60) << example.caption;
    if (example.caption.starts_with("a red") && example.caption.find("blue") != std::string::npos) {
      double red = 0, blue = 0, reds = 0, blues = 0;
      for (int k = 0; k < 32 * 32; ++k) {
        const bool is_red = pixels[3 * k] == 214 && pixels[3 * k + 1] == 39;
        const bool is_blue = pixels[3 * k] == 31 && pixels[3 * k + 1] == 90;
        red += is_red ? k % 32 : 0;
        reds += is_red;
        blue += is_blue ? k % 32 : 0;
        blues += is_blue;
      }
      EXPECT_LT(red / reds, blue / blues) << example.caption;
    }
  }
  EXPECT_GT(captions.size(), 100u);
}

TEST(Synthetic, WritesFilesAndRefusesOthers) {
  test::TemporaryFolder folder;
  SyntheticOptions options;
  for (const SyntheticDataset& set : synthetic_datasets()) {
    const bool images = set.name == "shapes";
    const std::string name = images ? "shapes" : set.name + ".tsv";
    write_synthetic_dataset(set.name, options, 3, folder / name);
    std::ifstream file(images ? folder.path() / name / "captions.tsv" : folder / name);
    std::string line;
    int lines = 0;
    while (std::getline(file, line)) {
      EXPECT_EQ(std::count(line.begin(), line.end(), '\t'), 1) << line;
      ++lines;
    }
    EXPECT_EQ(lines, 3) << set.name;
    EXPECT_EQ(std::filesystem::exists(folder.path() / "shapes" / "00002.png"), images);
  }
  EXPECT_ERROR(write_synthetic_dataset("nothing", options, 3, folder / "x.tsv"),
               "data: there is no synthetic dataset 'nothing'; synthetic_datasets() lists them");
  EXPECT_ERROR(write_synthetic_dataset("copy", options, 3, folder / "x.doc"),
               "the name must end in .jsonl or .tsv");
  EXPECT_ERROR(parse_language("fr"), "language: 'fr' is not known; en and ko are");
}

}  // namespace
}  // namespace heed
