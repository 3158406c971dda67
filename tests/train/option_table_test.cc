// The list of training options: complete, and obeyed where an option is read, written and resumed.
#include "train/option_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "heed/runtime.h"
#include "train/resume_options.h"

namespace heed {
namespace {

TEST(OptionTable, HasEveryMemberOfTrainOptionsOnce) {
  TrainOptions options;
  std::map<size_t, size_t> members;  // offset -> size
  std::set<std::string> names;
  each_train_option(options, [&](auto& value, const TrainOption& option) {
    const auto offset = static_cast<size_t>(reinterpret_cast<const char*>(&value) -
                                            reinterpret_cast<const char*>(&options));
    EXPECT_TRUE(members.emplace(offset, sizeof value).second) << option.name;
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
  });
  size_t end = 0;
  for (const auto& [offset, size] : members) {
    EXPECT_LT(offset - end, alignof(int64_t))
        << "a member of TrainOptions at byte " << end << " is missing in src/train/option_table.h";
    end = offset + size;
  }
  EXPECT_LT(sizeof(TrainOptions) - end, alignof(int64_t));
}

TEST(OptionTable, WhatAFileMayHoldComesBack) {
  TrainOptions options;
  // Every value that is none of the defaults.
  each_train_option(options, [](auto& value, const TrainOption& option) {
    using T = std::remove_reference_t<decltype(value)>;
    if constexpr (std::is_same_v<T, bool>) {
      value = true;
    } else if constexpr (std::is_arithmetic_v<T>) {
      value = static_cast<T>(option.high < 2 ? 0.25 : 7);
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      value = {"a", "b \"c\""};
    } else {
      value = option.choices.empty() ? std::string("a \\ \"b\"") : option.choices.back();
    }
  });
  TrainOptions read;
  parse_train_options(dump_train_options(options), "run.toml", read);
  EXPECT_EQ(dump_train_options(read), dump_train_options(options));
  EXPECT_FALSE(read.resume || read.force || read.quiet) << "these do not belong to a run";
  try {
    parse_train_options("no_such = 1\n", "run.toml", read);
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_TRUE(
        std::string(error.what())
            .starts_with(
                "run.toml: 'no_such' is not an option of training; known are preset, task, data"))
        << error.what();
  }
}

TEST(OptionTable, OnlyWhatChangesTheResultMustMatchOnResume) {
  TrainOptions options;
  options.task = "lm";
  options.best_by = "loss";
  TrainOptions other = options;
  other.keep = 9, other.out = "elsewhere", other.shard_optimizer = true, other.threads = 3;
  check_same_run(options_that_must_match(options), other);
  other.lr = 0.5;
  try {
    check_same_run(options_that_must_match(options), other);
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(" → 0.5"), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find("keep"), std::string::npos) << error.what();
  }
  options.from = other.from = "model";  // its own sizes hold
  other.lr = options.lr;
  other.width = 999, other.dropout = 0.9;
  check_same_run(options_that_must_match(options), other);
}

TEST(OptionTable, ValuesOutsideOfTheirRangeAreNamed) {
  TrainOptions options;
  options.ema = 1.0;
  try {
    check_train_options(options);
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "ema: 1 is not in 0 … 0.999999");
    EXPECT_EQ(error.kind(), ErrorKind::usage);
  }
  options.ema = 0.0;
  options.schedule = "sometimes";
  try {
    check_train_options(options);
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "schedule: 'sometimes' is not one of cosine, linear, constant, inverse-sqrt");
  }
}

}  // namespace
}  // namespace heed
