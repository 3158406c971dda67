#include "io/toml.h"

#include <gtest/gtest.h>

#include <limits>

#include "heed/runtime.h"

namespace heed {
namespace {

std::string message_of(std::string_view text) {
  try {
    parse_toml(text, "train.toml").integer("steps", 1, 100);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    return error.what();
  }
  return "no error";
}

TEST(Toml, ReadsTablesAndValues) {
  const Json toml = parse_toml(R"(
steps = 100  # a comment
lr = 3e-4
task = "번역"
resume = false
betas = [0.9, 0.95]
[model]
layers = 6
)",
                               "train.toml");
  EXPECT_EQ(toml.integer("steps", 1, 1000), 100);
  EXPECT_EQ(toml.number("lr", 0, 1), 3e-4);
  EXPECT_EQ(toml.string("task"), "번역");
  EXPECT_FALSE(toml.boolean("resume"));
  EXPECT_EQ(toml.at("betas")[1].number(), 0.95);
  EXPECT_EQ(toml.at("model").integer("layers", 1, 100), 6);
}

TEST(Toml, ErrorsNameFileAndPlace) {
  EXPECT_EQ(message_of("steps = \"x\""), "train.toml: steps is \"x\"; expected a whole number");
  EXPECT_EQ(message_of("step = 1"), "train.toml: steps is missing");
  EXPECT_NE(message_of("steps = 1\nsteps = 2").find("train.toml: line 2"), std::string::npos);
  EXPECT_NE(message_of("steps = ").find("train.toml: line 1"), std::string::npos);
  EXPECT_NE(message_of("steps = 1\na = \"\xff\"").find("train.toml: line 2"), std::string::npos);
  EXPECT_NE(message_of("a = 1979-05-27").find("line 1: dates"), std::string::npos);
  EXPECT_NE(message_of("a = " + std::string(100'000, '[')).find("train.toml: line 1"),
            std::string::npos);
  EXPECT_NE(message_of(std::string(5 << 20, ' ')).find("the limit is"), std::string::npos);
  EXPECT_NE(message_of("steps = 99999999999999999999").find("line 1"), std::string::npos);
}

TEST(Toml, WhatIsWrittenReadsBack) {
  TomlWriter writer;
  writer.comment("how it was run").field("steps", 100).field("lr", 1e-4).field("one", 1.0);
  writer.field("a key", "quote \" and \\ and\nline").field("on", true);
  writer.field("limit", std::numeric_limits<double>::infinity());
  writer.section("model").field("layers", int64_t{6});
  EXPECT_EQ(writer.text(), R"(# how it was run
steps = 100
lr = 0.0001
one = 1.0
"a key" = "quote \" and \\ and\nline"
on = true
limit = inf

[model]
layers = 6
)");
  const Json back = parse_toml(writer.text(), "f");
  EXPECT_EQ(back.string("a key"), "quote \" and \\ and\nline");
  EXPECT_EQ(back.at("model").integer("layers", 0, 9), 6);
}

TEST(Toml, KeysOfManyPartsAreRefusedBeforeTheyAreFollowed) {
  std::string parts = "a";
  for (int i = 0; i < 60000; ++i) {
    parts += i % 3 == 0 ? ".\"b.c\"" : " . a";
  }
  for (const std::string& text : {parts + " = 1", "\n[" + parts + "]", "x = {" + parts + " = 1}"}) {
    EXPECT_NE(message_of(text).find("a key has more than 64 parts"), std::string::npos);
  }
  const std::string dots(200, '.');
  const Json fine =
      parse_toml("# " + dots + "\na = \"" + dots + "\\\"" + dots + "\"\nb = '" + dots +
                     "'\nc = \"\"\"\n" + dots + "\"\n\"\"\"\nd = [1.5, 2.5]\ne.f.g = 1\n",
                 "f");
  EXPECT_EQ(fine.string("a"), dots + "\"" + dots);
  EXPECT_EQ(fine.at("e").at("f").integer("g", 0, 9), 1);
}

}  // namespace
}  // namespace heed
