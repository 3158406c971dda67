#include "io/json_split.h"

#include <gtest/gtest.h>

namespace heed {
namespace {

std::optional<SplitJson> split(std::string_view text) {
  return split_tokenizer_json(text, "tokenizer.json");
}

TEST(JsonSplit, VocabularyAndMergesComeAsLists) {
  const auto found = split(R"({"vocab": {"not": "this"}, "model": {"type": "BPE",
      "vocab": {"b": 7, "a": 0, "\u00e9 x": 3}, "inner": {"vocab": {"c": 1}, "merges": ["d"]},
      "merges": ["a b", ["c d", "e"]], "last": [1, {"merges": []}]}, "merges": [1]})");
  ASSERT_TRUE(found.has_value());
  using Members = std::vector<std::pair<std::string, int32_t>>;
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(found->vocabulary, (Members{{"b", 7}, {"a", 0}, {"\xc3\xa9 x", 3}}));
  EXPECT_EQ(found->merges, (Pairs{{"a", "b"}, {"c d", "e"}}));
  EXPECT_EQ(found->rest.dump(),
            R"({"merges":[1],"model":{"inner":{"merges":["d"],"vocab":{"c":1}},)"
            R"("last":[1,{"merges":[]}],"merges":[],"type":"BPE","vocab":{}},)"
            R"("vocab":{"not":"this"}})");
}

TEST(JsonSplit, GivesUpWhereTheyAreUnusual) {
  for (const char* text : {
           R"({"model": {"vocab": {"a": 0}}})",                               // no merges
           R"({"model": {"merges": ["a b"]}})",                               // no vocabulary
           R"({"model": {"vocab": [["a", 0.5]], "merges": ["a b"]}})",        // another kind
           R"({"model": {"vocab": {"a": -1}, "merges": ["a b"]}})",           // ids
           R"({"model": {"vocab": {"a": 1.5}, "merges": ["a b"]}})",          //
           R"({"model": {"vocab": {"a": 4294967296}, "merges": ["a b"]}})",   //
           R"({"model": {"vocab": {"a": {"b": 1}}, "merges": ["a b"]}})",     //
           R"({"model": {"vocab": {"a": 0}, "merges": ["ab"]}})",             // merges
           R"({"model": {"vocab": {"a": 0}, "merges": ["a b c"]}})",          //
           R"({"model": {"vocab": {"a": 0}, "merges": [["a"]]}})",            //
           R"({"model": {"vocab": {"a": 0}, "merges": [["a", "b", "c"]]}})",  //
           R"({"model": {"vocab": {"a": 0}, "merges": [[["a", "b"]]]}})",     //
           R"({"model": {"vocab": {"a": 0}, "merges": [null]}})",             //
           R"({"model": {"vocab": {"a": 0}, "merges": ["a b"]})",             // cut short
           R"(["merges"])",
       }) {
    EXPECT_FALSE(split(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace heed
