#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "heed/text.h"
#include "support/data.h"

namespace heed {
namespace {

using test::shared_data;

std::vector<nlohmann::json> expected_lines() {
  std::ifstream in(shared_data("tokenizers/expected.jsonl"));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(nlohmann::json::parse(line));
  }
  return lines;
}

/// Every text of expected.jsonl: ids by the quick and the full path, and offsets within the text.
void check_expected(const std::string& name, const std::string& file) {
  const Tokenizer tokenizer = Tokenizer::load(shared_data("tokenizers/" + file));
  for (const auto& line : expected_lines()) {
    const auto text = line["text"].get<std::string>();
    const auto ids = line[name].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer.encode_ids(text, false), ids) << text;
    const Encoding full = tokenizer.encode(text, false);
    EXPECT_EQ(full.ids, ids) << text;
    int64_t last = 0;
    for (const TextSpan& span : full.offsets) {
      EXPECT_LE(span.begin, span.end);
      EXPECT_LE(span.end, static_cast<int64_t>(text.size()));
      EXPECT_GE(span.end, last) << text;
      last = span.end;
    }
  }
}

TEST(Reference, Gpt2) {
  HEED_NEEDS_SHARED("tokenizers/expected.jsonl");
  check_expected("gpt2", "gpt2.vocab.json");
}

TEST(Reference, BertUncased) {
  HEED_NEEDS_SHARED("tokenizers/expected.jsonl");
  check_expected("bert-base-uncased", "bert-base-uncased.vocab.txt");
}

TEST(Reference, MiniLmFolder) {
  HEED_NEEDS_SHARED("minilm/tokenizer.json");
  const Tokenizer tokenizer = Tokenizer::load(shared_data("minilm"));
  std::ifstream in(shared_data("minilm/ids.json"));
  for (const auto& line : nlohmann::json::parse(in)) {
    const auto text = line["text"].get<std::string>();
    EXPECT_EQ(tokenizer.encode_ids(text), line["ids"].get<std::vector<int32_t>>()) << text;
  }
  ASSERT_TRUE(tokenizer.padding());
  EXPECT_EQ(tokenizer.padding()->length, 128);
  EXPECT_EQ(tokenizer.special().cls, 101);
  EXPECT_EQ(tokenizer.special().mask, 103);
  EXPECT_EQ(tokenizer.vocab_size(), 30522);
}

}  // namespace
}  // namespace heed
