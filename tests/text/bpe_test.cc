#include "text/bpe.h"

#include <gtest/gtest.h>

#include <random>

#include "text/merge_agenda.h"

namespace heed::text {
namespace {

/// Merges by looking at all pairs each time: slow and plain.
std::vector<int32_t> by_definition(std::vector<int32_t> ids, const PairTable& pairs) {
  while (true) {
    size_t best = 0;
    const PairTable::Entry* lowest = nullptr;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto* found = pairs.find(ids[i], ids[i + 1]);
      if (found != nullptr && (lowest == nullptr || found->rank < lowest->rank)) {
        lowest = found;
        best = i;
      }
    }
    if (lowest == nullptr) {
      return ids;
    }
    ids[best] = lowest->result;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

TEST(MergeAgenda, EqualsTheDefinition) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    // Random merges in random order of rank, some of one rank: harder than any trained vocabulary.
    const int letters = 2 + static_cast<int>(random() % 3);
    PairTable pairs(64);
    for (uint32_t rank = 0; rank < 40; ++rank) {
      const auto any = [&] { return static_cast<int32_t>(random() % (letters + 20u)); };
      pairs.insert(any(), any(), rank / (1 + random() % 3), letters + static_cast<int32_t>(rank));
    }
    std::vector<int32_t> ids;
    std::vector<Symbol> symbols;
    for (int i = 0; i < 150; ++i) {
      ids.push_back(static_cast<int32_t>(random() % static_cast<unsigned>(letters)));
      symbols.push_back({ids.back(), 1});
    }
    MergeAgenda agenda;
    agenda.merge(symbols, pairs);
    std::vector<int32_t> merged;
    uint32_t length = 0;
    for (const Symbol& symbol : symbols) {
      merged.push_back(symbol.id);
      length += symbol.length;
    }
    ASSERT_EQ(merged, by_definition(ids, pairs));
    EXPECT_EQ(length, ids.size());
  }
}

TEST(MergesByScore, EqualScoresGoLeftmostFirst) {
  Vocabulary vocabulary = Vocabulary::from_list({"a", "b", "c", "ab", "bc", "abc"});
  const std::vector<Merge> merges =
      merges_by_score(vocabulary, {0, 0, 0, -1, -1, -2}, std::vector<bool>(6, true));
  const auto model = make_bpe(std::move(vocabulary), merges, {});
  const auto scratch = model->make_scratch();
  std::vector<ModelToken> tokens;
  model->tokenize("abcbc", scratch.get(), tokens);
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_EQ(tokens[0].id, 5);
  EXPECT_EQ(tokens[1].id, 4);
  EXPECT_EQ(tokens[1].begin, 3u);
}

}  // namespace
}  // namespace heed::text
