#include "io/json.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/runtime.h"
#include "io/json_writer.h"
#include "support/error.h"

namespace heed {
namespace {

template <class Fn>
std::string message_of(Fn&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    return error.what();
  }
  return "no error";
}

Json parsed(std::string_view text) { return Json::parse(text, "config.json"); }

TEST(Json, GettersGiveWhatIsThere) {
  const Json json = parsed(R"({"n": 12, "f": 3.0, "x": 1e-5, "s": "ab", "b": true, "z": null,
                              "a": [1, 2], "o": {"p": {"q": -7}}, "t": ["x", "y"]})");
  EXPECT_EQ(json.integer("n", 0, 100), 12);
  EXPECT_EQ(json.integer("f", 0, 100), 3);
  EXPECT_EQ(json.number("x", 0, 1), 1e-5);
  EXPECT_EQ(json.number("n", 0, 100), 12.0);
  EXPECT_EQ(json.string("s"), "ab");
  EXPECT_TRUE(json.boolean("b"));
  EXPECT_FALSE(json.has("z"));
  EXPECT_EQ(json.integer_or("z", 5, 0, 9), 5);
  EXPECT_EQ(json.string_or("none", "d"), "d");
  EXPECT_EQ(json.number_or("none", 0.5, 0, 1), 0.5);
  EXPECT_FALSE(json.boolean_or("none", false));
  EXPECT_EQ(json.at("a").integers(0, 9), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(json.at("t").strings(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(json.at("o").at("p").integer("q", -10, 10), -7);
  EXPECT_EQ(json.at("a")[1].integer(), 2);
  EXPECT_EQ(json.size(), 9u);
  std::string keys;
  json.for_each([&](const std::string& key, const Json&) { keys += key; });
  EXPECT_EQ(keys, "abfnostxz");
  EXPECT_EQ(Json::parse("\xef\xbb\xbf{}", "f").size(), 0u);
  EXPECT_EQ(parsed("-9223372036854775808").integer(), std::numeric_limits<int64_t>::min());
}

TEST(Json, ErrorsNameFileFieldAndWhatIsWanted) {
  const Json json = parsed(
      R"({"n_head": "abc", "big": 1e18, "huge": 18446744073709551615, "half": 0.5, "neg": -1,
          "text_config": {"layers": [1, {"size": null, "eps": "x"}]}})");
  EXPECT_EQ(message_of([&] { json.integer("n_head", 1, 9); }),
            "config.json: n_head is \"abc\"; expected a whole number");
  EXPECT_EQ(message_of([&] { json.integer("neg", 1, 9); }),
            "config.json: neg is -1; expected a whole number from 1 to 9");
  EXPECT_EQ(message_of([&] { json.integer("big", 1, 9); }),
            "config.json: big is 1e+18; expected a whole number");
  EXPECT_EQ(message_of([&] { json.integer("half", 0, 9); }),
            "config.json: half is 0.5; expected a whole number");
  EXPECT_EQ(message_of([&] { json.integer("huge", 0, 9); }),
            "config.json: huge is 18446744073709551615; expected a whole number of 64 bits");
  EXPECT_EQ(message_of([&] { json.number("big", 0, 1); }),
            "config.json: big is 1e+18; expected a number from 0 to 1");
  EXPECT_EQ(message_of([&] { json.integer("none", 0, 1); }), "config.json: none is missing");
  const Json inner = json.at("text_config").at("layers")[1];
  EXPECT_EQ(message_of([&] { inner.integer("size", 0, 1); }),
            "config.json: text_config.layers[1].size is missing");
  EXPECT_EQ(message_of([&] { inner.number("eps", 0, 1); }),
            "config.json: text_config.layers[1].eps is \"x\"; expected a number");
  EXPECT_EQ(message_of([&] { json.boolean("neg"); }),
            "config.json: neg is -1; expected true or false");
  EXPECT_EQ(message_of([&] { json.at("neg").at("x"); }),
            "config.json: neg is -1; expected an object");
  EXPECT_EQ(message_of([&] { json.at("text_config").string(); }),
            "config.json: text_config is an object; expected a string");
  EXPECT_EQ(message_of([&] {
              json.at("text_config").only({"a", "b"});
            }),
            "config.json: text_config.layers is not a known key; known keys: a, b");
  EXPECT_EQ(message_of([&] { json.elements(); }),
            "config.json: the text is an object; expected an array");
  EXPECT_NE(message_of([&] { json.at("text_config").at("layers")[2]; }).find("has 2 elements"),
            std::string::npos);
}

TEST(Json, RefusesWhatIsNoJson) {
  for (const char* text :
       {"", " ", "{", "[1,]", "{\"a\":1,}", "{a:1}", "nul", "01", "+1", "NaN", "[1] 2", "\"\x01\"",
        "\"\\ud800\"", "'a'", "{\"a\" 1}", "[1 2]", "/**/1", "1e999"}) {
    EXPECT_NE(message_of([&] { parsed(text); }).find("not valid JSON"), std::string::npos) << text;
  }
  EXPECT_NE(message_of([] { parsed("\"\xc3\x28\""); }).find("not valid JSON"), std::string::npos);
  EXPECT_NE(message_of([] { parsed(std::string_view("1\0", 2)); }).find("zero byte"),
            std::string::npos);
  EXPECT_NE(message_of([] { parsed(R"({"a":1,"b":{"c":1,"c":2}})"); }).find("duplicate key 'c'"),
            std::string::npos);
}

TEST(Json, F32_DeepNestingIsRefusedNotRecursedInto) {
  for (const std::string bracket : {"[", "{\"a\":"}) {
    std::string text;
    for (int i = 0; i < 100'000; ++i) {
      text += bracket;
    }
    EXPECT_NE(message_of([&] { parsed(text); }).find("nested deeper than 64"), std::string::npos);
  }
  EXPECT_EQ(parsed(std::string(64, '[') + std::string(64, ']')).size(), 1u);
  // Brackets inside strings do not count, escaped quotes do not end one.
  EXPECT_EQ(parsed("[\"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\"]").size(),
            1u);
}

TEST(Json, LimitsHold) {
  JsonLimits limits;
  limits.values = 3;
  limits.token = 5;
  EXPECT_EQ(Json::parse("[1,2,3]", "f", limits).size(), 3u);
  EXPECT_NE(message_of([&] { Json::parse("[1,2,3,4]", "f", limits); }).find("more than 3 values"),
            std::string::npos);
  EXPECT_EQ(Json::parse("\"12345\"", "f", limits).string(), "12345");
  EXPECT_ERROR(Json::parse("\"123456\"", "f", limits),
               "f: a string or number of 6 bytes at byte 1; the limit is 5");
  EXPECT_ERROR(Json::parse("123456", "f", limits),
               "f: a string or number of 6 bytes at byte 0; the limit is 5");
  EXPECT_ERROR(Json::parse("\"123456", "f", limits),
               "f: a string or number of 6 bytes at byte 1; the limit is 5");
}

TEST(JsonWriter, WritesAsPythonDoes) {
  JsonWriter writer(2);
  writer.begin_object()
      .field("name", "a\"b\\\n\x01 가")
      .field("layers", 12)
      .field("eps", 1e-5)
      .field("theta", 10000.0)
      .field("tied", true)
      .key("none")
      .null()
      .field("shape", std::vector<int64_t>{1, 2})
      .key("empty")
      .begin_array()
      .end_array()
      .end_object();
  EXPECT_EQ(writer.text(), R"({
  "name": "a\"b\\\n\u0001 가",
  "layers": 12,
  "eps": 1e-05,
  "theta": 10000.0,
  "tied": true,
  "none": null,
  "shape": [
    1,
    2
  ],
  "empty": []
})");
  JsonWriter line;
  line.begin_array()
      .value(1)
      .value(std::nan(""))
      .begin_object()
      .field("x", 0.1)
      .end_object()
      .end_array();
  EXPECT_EQ(line.text(), R"([1,null,{"x":0.1}])");
  EXPECT_EQ(Json::parse(line.text(), "f")[2].number("x", 0, 1), 0.1);
}

TEST(JsonWriter, BadUtf8BecomesAReplacementCharacter) {
  std::string out;
  append_json_string(out, "a\xffz\xea\xb0");
  EXPECT_EQ(out, "\"a\xef\xbf\xbdz\xef\xbf\xbd\"");
}

/// One for each beginning of a sequence, as Python's decode(errors="replace") has it.
TEST(JsonWriter, BadUtf8IsCountedInBeginnings) {
  const auto count = [](std::string_view text) {
    std::string out;
    append_json_string(out, text);
    size_t found = 0;
    for (size_t at = out.find("\xef\xbf\xbd"); at != std::string::npos;
         at = out.find("\xef\xbf\xbd", at + 3)) {
      ++found;
    }
    return found;
  };
  EXPECT_EQ(count("\xf0\x9f\x91"), 1u);
  EXPECT_EQ(count("\xf0\x9f\x91x"), 1u);
  EXPECT_EQ(count("\xf0\x9f x"), 1u);
  EXPECT_EQ(count("\xe2\x82\xe2\x82"), 2u);
  EXPECT_EQ(count("\xed\xa0\x80"), 3u);  // a surrogate
  EXPECT_EQ(count("\xe0\x80\x80"), 3u);  // overlong
  EXPECT_EQ(count("\xf4\x90\x80\x80"), 4u);
  EXPECT_EQ(count("\xc3\x28\x80\xff"), 3u);
}

}  // namespace
}  // namespace heed
