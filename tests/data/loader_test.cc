#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "data/permutation.h"
#include "data/support.h"
#include "support/check.h"
#include "support/error.h"

namespace heed {
namespace {

using test::error_of;
using test::values;

TokenShard counting(int64_t tokens) {
  std::vector<TokenId> ids;
  for (int64_t i = 0; i < tokens; ++i) {
    ids.push_back(static_cast<int32_t>(i));
  }
  return TokenShard::from({ids});
}

/// Sequence i is i + 10, repeated 1 + i % 9 times.
TokenShard repeated(int count) {
  std::vector<std::vector<TokenId>> sequences;
  for (int i = 0; i < count; ++i) {
    sequences.emplace_back(1 + i % 9, i + 10);
  }
  return TokenShard::from(sequences);
}

std::unique_ptr<Loader> pair_loader(const LoaderOptions& options, int count = 500) {
  return make_pair_loader({repeated(count), repeated(count)}, {0, 1, 2}, options);
}

/// One of every kind, on data that shows which example a row is.
std::vector<std::unique_ptr<Loader>> all_loaders(const LoaderOptions& options) {
  std::vector<std::unique_ptr<Loader>> loaders;
  loaders.push_back(make_lm_loader(counting(5000), 16, options));
  Masking masking;
  masking.mask = 9;
  masking.vocabulary = 50;
  loaders.push_back(make_mlm_loader(counting(5000), 16, masking, options));
  loaders.push_back(pair_loader(options));
  std::vector<std::vector<TokenId>> labels(500);
  for (int i = 0; i < 500; ++i) {
    labels[i] = {i % 3};
  }
  loaders.push_back(make_class_loader({repeated(500), TokenShard::from(labels), {"a", "b", "c"}},
                                      {0, 0, -1}, options));
  return loaders;
}

void expect_same(const Batch& a, const Batch& b) {
  for (Tensor Batch::*member :
       {&Batch::input_ids, &Batch::attention_mask, &Batch::decoder_input_ids,
        &Batch::decoder_attention_mask, &Batch::labels, &Batch::pixel_values, &Batch::features}) {
    ASSERT_EQ((a.*member).defined(), (b.*member).defined());
    if ((a.*member).defined()) {
      ASSERT_EQ((a.*member).shape(), (b.*member).shape());
      EXPECT_EQ((a.*member).to_doubles(), (b.*member).to_doubles());
    }
  }
  EXPECT_EQ(a.targets, b.targets);
  EXPECT_EQ(a.tokens, b.tokens);
}

TEST(Permutation, IsABijectionForEverySize) {
  for (const uint64_t count : {1, 2, 3, 7, 64, 65, 1000}) {
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t place = permuted(i, count, 1, 2);
      ASSERT_LT(place, count);
      seen.insert(place);
    }
    EXPECT_EQ(seen.size(), count);
  }
}

TEST(Permutation, MovesEveryIndexEverywhere) {
  std::map<uint64_t, int> first;
  for (uint64_t stream = 0; stream < 4000; ++stream) {
    ++first[permuted(0, 10, 5, stream)];
  }
  ASSERT_EQ(first.size(), 10u);
  for (const auto& [place, times] : first) {
    EXPECT_NEAR(times, 400, 100) << place;  // five standard deviations
  }
}

TEST(LmLoader, EveryTokenIsPredictedOnceInOrder) {
  LoaderOptions options;
  options.shuffle = false;
  options.batch = 4;
  const auto loader = make_lm_loader(counting(151), 11, options);
  EXPECT_EQ(loader->steps_per_epoch(), 4);
  std::vector<int64_t> predicted;
  while (!loader->at_end()) {
    const Batch batch = loader->next();
    EXPECT_FALSE(batch.attention_mask.defined());
    const auto labels = values(batch.labels);
    const auto ids = values(batch.input_ids);
    int64_t counted = 0;
    for (size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] != -100) {
        EXPECT_EQ(labels[i], ids[i]);
        EXPECT_EQ(ids[i], ids[i - 1] + 1);
        predicted.push_back(labels[i]);
        ++counted;
      }
    }
    EXPECT_EQ(batch.targets, counted);
  }
  ASSERT_EQ(predicted.size(), 150u);
  EXPECT_EQ(predicted.front(), 1);
  EXPECT_EQ(predicted.back(), 150);
}

TEST(LmLoader, AnEpochHasEveryBlockOnceAndEpochsDiffer) {
  LoaderOptions options;
  options.batch = 7;
  const auto loader = make_lm_loader(counting(10000), 11, options);
  std::set<int64_t> starts[2];
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int64_t i = 0; i < loader->steps_per_epoch(); ++i) {
      const Batch batch = loader->next();
      const auto ids = values(batch.input_ids);
      for (int64_t row = 0; row < batch.rows; ++row) {
        EXPECT_TRUE(starts[epoch].insert(ids[row * 11]).second);
      }
    }
    EXPECT_EQ(static_cast<int64_t>(starts[epoch].size()), loader->steps_per_epoch() * 7);
  }
  EXPECT_NE(*starts[0].begin() % 10, *starts[1].begin() % 10);  // another phase
}

TEST(LmLoader, ValidationIsTheEndOfTheText) {
  LoaderOptions options;
  options.validation = 0.1;
  options.part = Part::train;
  options.batch = 16;
  const auto train = make_lm_loader(counting(2000), 20, options);
  for (int step = 0; step < 30; ++step) {
    for (const int64_t id : values(train->next().input_ids)) {
      ASSERT_LT(id, 1800);
    }
  }
  options.part = Part::validation;
  options.shuffle = false;
  const auto validation = make_lm_loader(counting(2000), 20, options);
  EXPECT_EQ(values(validation->next().input_ids)[0], 1800);
}

TEST(LmLoader, ShortOrEmptyTextIsRefusedWithItsPlace) {
  LoaderOptions options;
  EXPECT_NE(error_of([&] {
              make_lm_loader(counting(10), 16, options);
            }).find("10 tokens from token 0 on; a block needs 16"),
            std::string::npos);
  options.part = Part::validation;
  options.validation = 0.01;
  options.shuffle = false;
  EXPECT_NE(error_of([&] { make_lm_loader(counting(100), 16, options); }).find("from token 99 on"),
            std::string::npos);
  EXPECT_NE(error_of([&] { make_lm_loader(TokenShard::from({}), 16, options); }), "");
  EXPECT_EQ(error_of([&] { counting(100).check_vocabulary(100); }), "");
  EXPECT_NE(error_of([&] { counting(100).check_vocabulary(60); }).find("id 60 at token 60"),
            std::string::npos);
}

TEST(Loader, GoesOnExactlyWhereItWas) {
  LoaderOptions options;
  options.batch = 24;
  options.seed = 5;
  auto loaders = all_loaders(options);
  auto again = all_loaders(options);
  for (size_t kind = 0; kind < loaders.size(); ++kind) {
    for (int step = 0; step < 25; ++step) {
      loaders[kind]->next();
    }
    again[kind]->restore(loaders[kind]->state());
    for (int step = 0; step < 30; ++step) {  // into the next epoch
      expect_same(loaders[kind]->next(), again[kind]->next());
    }
  }
}

TEST(Loader, RefusesTheStateOfOtherData) {
  LoaderOptions options;
  const auto loader = pair_loader(options);
  EXPECT_NE(error_of([&] { pair_loader(options, 501)->restore(loader->state()); }).find("the data"),
            std::string::npos);
  options.seed = 1;
  EXPECT_NE(error_of([&] { pair_loader(options)->restore(loader->state()); }).find("seed"),
            std::string::npos);
  options.seed = 0;
  options.batch = 16;
  EXPECT_NE(error_of([&] { pair_loader(options)->restore(loader->state()); }).find("batch"),
            std::string::npos);
}

TEST(Loader, RanksTogetherHaveTheBatchOfOne) {
  LoaderOptions options;
  options.batch = 10;
  const auto whole = all_loaders(options);
  for (const int ranks : {2, 3}) {
    for (size_t kind = 0; kind < whole.size(); ++kind) {
      for (const int64_t step : {0, 3, 77}) {
        const Batch one = whole[kind]->batch(step);
        int64_t row = 0;
        int64_t targets = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          LoaderOptions mine = options;
          mine.rank = rank;
          mine.ranks = ranks;
          const Batch part = all_loaders(mine)[kind]->batch(step);
          expect_same(part, batch_rows(one, row, row + part.rows));
          EXPECT_EQ(part.global_targets, one.targets);
          row += part.rows;
          targets += part.targets;
        }
        EXPECT_EQ(row, 10);
        EXPECT_EQ(targets, one.targets);
      }
    }
  }
}

TEST(Loader, SplitsWithoutOverlap) {
  LoaderOptions options;
  options.validation = 0.2;
  options.shuffle = false;
  options.batch = 50;
  std::multiset<int64_t> seen;
  int64_t sizes[2] = {};
  for (const Part part : {Part::train, Part::validation}) {
    options.part = part;
    const auto loader = pair_loader(options);
    sizes[part == Part::validation] = loader->examples();
    while (!loader->at_end()) {
      const Batch batch = loader->next();
      for (int64_t row = 0; row < batch.rows; ++row) {
        seen.insert(values(batch.input_ids)[row * batch.input_ids.size(1)]);
      }
    }
  }
  EXPECT_EQ(sizes[0], 400);
  EXPECT_EQ(sizes[1], 100);
  EXPECT_EQ(seen.size(), 500u);
  EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 500u);
}

TEST(PairLoader, TargetsAreShiftedEndedAndPadded) {
  LoaderOptions options;
  options.shuffle = false;
  options.batch = 2;
  const auto loader = make_pair_loader(
      {TokenShard::from({{5, 6}, {7}}), TokenShard::from({{8, 9, 2}, {4}})}, {0, 1, 2}, options);
  const Batch batch = loader->next();
  EXPECT_EQ(values(batch.input_ids), (std::vector<int64_t>{5, 6, 7, 0}));
  EXPECT_EQ(values(batch.attention_mask), (std::vector<int64_t>{1, 1, 1, 0}));
  EXPECT_EQ(values(batch.labels), (std::vector<int64_t>{8, 9, 2, 4, 2, -100}));
  EXPECT_EQ(values(batch.decoder_input_ids), (std::vector<int64_t>{1, 8, 9, 1, 4, 0}));
  EXPECT_EQ(values(batch.decoder_attention_mask), (std::vector<int64_t>{1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(batch.targets, 5);
  EXPECT_EQ(batch.tokens, 8);
}

TEST(PairLoader, LongSequencesKeepTheirEnd) {
  LoaderOptions options;
  options.shuffle = false;
  options.max_length = 3;
  const auto loader = make_pair_loader(
      {TokenShard::from({{5, 6, 7, 8, 2}}), TokenShard::from({{5, 6, 7, 8}})}, {0, 1, 2}, options);
  const Batch batch = loader->next();
  EXPECT_EQ(values(batch.input_ids), (std::vector<int64_t>{5, 6, 2}));
  EXPECT_EQ(values(batch.labels), (std::vector<int64_t>{5, 6, 2}));
}

TEST(PairLoader, BucketsSavePadding) {
  LoaderOptions options;
  options.batch = 20;
  const auto loader = pair_loader(options, 2000);
  int64_t real = 0;
  int64_t all = 0;
  std::set<int64_t> seen;
  for (int64_t i = 0; i < loader->steps_per_epoch(); ++i) {
    const Batch batch = loader->next();
    real += batch.tokens;
    all += batch.input_ids.numel() + batch.decoder_input_ids.numel();
    for (int64_t row = 0; row < batch.rows; ++row) {
      seen.insert(values(batch.input_ids)[row * batch.input_ids.size(1)]);
    }
  }
  EXPECT_EQ(seen.size(), 2000u);
  EXPECT_GT(static_cast<double>(real) / static_cast<double>(all), 0.95);
}

TEST(MlmLoader, MasksAsAsked) {
  LoaderOptions options;
  options.batch = 64;
  std::vector<TokenId> ids(100'000, 20);
  ids[5] = 7;
  Masking masking;
  masking.mask = 4;
  masking.vocabulary = 1000;
  masking.keep = {7};
  masking.first = 2;
  masking.last = 3;
  const auto loader = make_mlm_loader(TokenShard::from({ids}), 64, masking, options);
  int64_t chosen = 0, masked = 0, kept = 0, total = 0;
  for (int step = 0; step < 20; ++step) {
    const Batch batch = loader->next();
    const auto inputs = values(batch.input_ids);
    const auto labels = values(batch.labels);
    int64_t targets = 0;
    for (size_t i = 0; i < labels.size(); ++i) {
      if (i % 64 == 0 || i % 64 == 63) {
        EXPECT_EQ(inputs[i], i % 64 == 0 ? 2 : 3);
        EXPECT_EQ(labels[i], -100);
        continue;
      }
      ++total;
      if (labels[i] == -100) {
        EXPECT_TRUE(inputs[i] == 20 || inputs[i] == 7);
        continue;
      }
      EXPECT_EQ(labels[i], 20);
      ++targets;
      masked += inputs[i] == 4;
      kept += inputs[i] == 20;
    }
    EXPECT_EQ(batch.targets, targets);
    chosen += targets;
  }
  const auto share = [](int64_t a, int64_t b) { return static_cast<double>(a) / b; };
  EXPECT_NEAR(share(chosen, total), 0.15, 0.01);
  EXPECT_NEAR(share(masked, chosen), 0.8, 0.02);
  EXPECT_NEAR(share(kept, chosen), 0.1, 0.015);
}

TEST(Loader, NonsenseOptionsAreErrors) {
  EXPECT_ERROR(pair_loader({.batch = 0}), "batch 0 must be positive");
  EXPECT_ERROR(pair_loader({.rank = 1}), "rank 1 is not below the number of ranks, 1");
  EXPECT_ERROR(pair_loader({.validation = 1}), "validation fraction 1 must be in [0, 1)");
  LoaderOptions options;
  options.part = Part::validation;
  EXPECT_ERROR(
      pair_loader(options),
      "data: no examples are left of 500 for this part of the set");  // no share was set aside
}

}  // namespace
}  // namespace heed
