#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "generate/sampling.h"
#include "generate/token_trie.h"
#include "heed/generate.h"
#include "heed/runtime.h"
#include "schema_cases.h"
#include "support/data.h"
#include "support/error.h"
#include "text/token_bytes.h"
#include "tokenizers.h"

namespace heed::test {
namespace {

void expect_matches(const Grammar& grammar, const std::vector<std::string>& yes,
                    const std::vector<std::string>& no) {
  for (const std::string& text : yes) {
    EXPECT_TRUE(grammar.matches(text)) << text;
    for (size_t i = 0; i < text.size(); ++i) {
      EXPECT_TRUE(grammar.matches_prefix(text.substr(0, i))) << text << " " << i;
    }
  }
  for (const std::string& text : no) {
    EXPECT_FALSE(grammar.matches(text)) << text;
  }
}

TEST(Gbnf, RulesClassesGroupsAndRepetitions) {
  expect_matches(Grammar::from_gbnf("# arithmetic\n"
                                    "root ::= expr \"\\n\"?\n"
                                    "expr ::= term ([-+*/] term)*\n"
                                    "term ::= num | \"(\" expr \")\"   # no left recursion\n"
                                    "num ::= [0-9]{1,3} (\".\" [0-9]+)?\n"),
                 {"1", "12+3", "(1+2)*3.14", "((7))\n", "999"},
                 {"", "1+", "1234", "()", "1.", "a"});
  expect_matches(Grammar::from_gbnf("root ::= ([가-힣] | \"é\")+ .? [^a-c]"),
                 {"한글z", "éé!", "한x🙂"}, {"한", "한a", "x"});
  expect_matches(
      Grammar::from_gbnf("root ::= a{2} b{2,} c{0,2}\na ::= \"a\"\nb::=\"b\"\nc ::= \"c\""),
      {"aabb", "aabbbbcc"}, {"abb", "aab", "aabbccc"});
  expect_matches(Grammar::from_gbnf("root ::= \"a\" |\n  \"b\"\n  | \"\\x41\\u00e9\\\"\""),
                 {"a", "b", "A\u00e9\""}, {"", "ab"});
  expect_matches(Grammar::from_gbnf("root ::= (\"a\"? \"b\"?)* \"c\""),
                 {"c", "abc", "babac", "bbc"}, {"", "ca"});
  expect_matches(Grammar::from_gbnf("root ::= \"(\" root \")\" | \"\""), {"", "()", "((()))"},
                 {"(", "())"});
}

TEST(Gbnf, ErrorsSayWhereAndWhat) {
  const auto why = [](const char* text) {
    return message_of([&] { Grammar::from_gbnf(text, "g.gbnf"); });
  };
  EXPECT_EQ(why("a ::= \"x\""), "g.gbnf: has no rule 'root', which a text must follow");
  EXPECT_EQ(why("root ::= b"), "g.gbnf: line 1: there is no rule 'b'");
  EXPECT_NE(why("root ::= root \"a\" | \"b\"").find("left-recursive"), std::string::npos);
  EXPECT_NE(why("root ::= x root \"a\" | \"b\"\nx ::= \"\"").find("left-recursive"),
            std::string::npos);
  EXPECT_NE(why("root ::= \"a\" root").find("never comes to an end"), std::string::npos);
  EXPECT_NE(why("root ::= \"a").find("no closing"), std::string::npos);
  EXPECT_NE(why("root ::= [a").find("no closing"), std::string::npos);
  EXPECT_NE(why("root ::= [z-a]").find("ends before"), std::string::npos);
  EXPECT_NE(why("root ::= (\"a\"").find("not closed"), std::string::npos);
  EXPECT_NE(why("root ::= \"a\"{3,1}").find("{n}"), std::string::npos);
  EXPECT_NE(why("root ::= \"a\"{-5}").find("{n}"), std::string::npos);
  EXPECT_NE(why("root ::= \"a\"{1,-1}").find("{n}"), std::string::npos);
  EXPECT_NE(message_of([] {
              Grammar::from_json_schema(R"({"type":"string","pattern":"^a{-5}$"})");
            }).find("{n}"),
            std::string::npos);
  EXPECT_NE(why("root ::= \"a\"{99999999}").find("times"), std::string::npos);
  EXPECT_NE(why("root ::= \"\\q\"").find("escape"), std::string::npos);
  EXPECT_NE(why("root = \"a\"").find("::="), std::string::npos);
  EXPECT_NE(why("root ::= \"a\"\nroot ::= \"b\"").find("line 2: 'root' is defined twice"),
            std::string::npos);
  const std::string deep = "root ::= " + std::string(5000, '(') + "\"a\"" + std::string(5000, ')');
  EXPECT_NE(why(deep.c_str()).find("nested too deeply"), std::string::npos);
  EXPECT_NE(why("root ::= ((\"a\"{1000}){1000}){1000}").find("no error"), std::string::npos)
      << "repetitions of repetitions share their rules";
}

TEST(Gbnf, AGrammarThatIsVeryAmbiguousStaysWithinBounds) {
  const Grammar grammar =
      Grammar::from_gbnf("root ::= s\ns ::= (\"a\" s | \"a\" s \"b\" | \"\")", "ambiguous");
  EXPECT_TRUE(grammar.matches_prefix(std::string(3000, 'a')));
}

TEST(JsonGrammar, AnyObject) {
  expect_matches(
      Grammar::json_object(),
      {"{}", R"({"a":1})", R"({"a": [1, -2.5e3, {"b": null}], "c": "x\n\u00e9\ud83d\ude00"})",
       "{\n  \"a\": true\n}", R"({"한글": ""})"},
      {"", "[]", "{", R"({"a"})", R"({"a":01})", R"({a:1})", "{\"a\":\"\n\"}", R"({"a":"\ud83d"})",
       "{} "});
}

TEST(JsonSchema, KeywordsAllowWhatTheySay) {
  expect_matches(Grammar::from_json_schema(R"({"type": "object", "properties": {
      "name": {"type": "string", "minLength": 1, "maxLength": 3}, "age": {"type": "integer",
      "minimum": 0, "maximum": 120}, "tags": {"type": "array", "items": {"enum": ["x", "y"]},
      "maxItems": 2}}, "required": ["name"], "additionalProperties": false})"),
                 {R"({"name":"abc"})", R"({"name": "한글x", "age": 120})",
                  R"({"name":"a","tags":["x", "y"]})", R"({"name":"\n\u0041"})"},
                 {"{}", R"({"name":""})", R"({"name":"abcd"})", R"({"name":"a","age":121})",
                  R"({"name":"a","age":-1})", R"({"name":"a","tags":["z"]})",
                  R"({"name":"a","tags":["x","x","x"]})", R"({"name":"a","b":1})",
                  R"({"age":1,"name":"a"})", R"({"name":"a","age":007})"});
  expect_matches(
      Grammar::from_json_schema(R"({"type": "object", "properties": {"ab": {"const": 1}},
      "additionalProperties": {"type": "boolean"}})"),
      {"{}", R"({"ab":1})", R"({"a":true})", R"({"abc":false,"x":true})", R"({"ab":1,"b":true})"},
      {R"({"ab":true})", R"({"a":1})"});
  expect_matches(
      Grammar::from_json_schema(R"({"type": "integer", "minimum": -12, "maximum": 205})"),
      {"-12", "-1", "0", "9", "10", "99", "100", "199", "200", "205"},
      {"-13", "206", "-0", "1.0", "00", "1000"});
  expect_matches(Grammar::from_json_schema(R"({"type": "number", "exclusiveMinimum": -2,
      "maximum": 3})"),
                 {"-1", "0.5", "3", "2.999", "-0.5"}, {"-2", "3.1", "4", "-2.5"});
  expect_matches(Grammar::from_json_schema(R"({"$ref": "#/$defs/t", "$defs": {"t": {"type": "array",
      "items": {"$ref": "#/$defs/t"}}}})"),
                 {"[]", "[[],[[]]]"}, {"[1]", "{}"});
  expect_matches(Grammar::from_json_schema(R"({"type": "string", "format": "date-time"})"),
                 {R"("2026-11-17T04:05:06Z")", R"("2026-02-28T23:59:59.5+09:00")"},
                 {R"("2026-13-01T00:00:00Z")", R"("now")"});
  expect_matches(Grammar::from_json_schema(R"({"type": "array", "prefixItems": [{"const": 1},
      {"const": 2}], "items": false, "minItems": 1})"),
                 {"[1]", "[1, 2]"}, {"[]", "[2]", "[1,2,3]"});
  // The same as drafts before 2020-12 write it.
  expect_matches(Grammar::from_json_schema(R"({"items": [{"const": 1}, {"const": 2}],
      "additionalItems": false, "minItems": 1})"),
                 {"[1]", "[1, 2]"}, {"[]", "[2]", "[1,2,3]"});
  expect_matches(Grammar::from_json_schema(R"({"items": [{"type": "integer"}]})"),
                 {"[]", "[-3000]", R"([1, "a"])"}, {R"(["a"])", "1"});
  expect_matches(Grammar::from_json_schema("true"), {"1", "[]", "null"}, {"", "x"});
}

TEST(JsonSchema, WhatIsNotSupportedIsNamed) {
  const auto why = [](const char* schema) {
    return message_of([&] { Grammar::from_json_schema(schema, "s.json"); });
  };
  EXPECT_EQ(why(R"({"properties": {"a": {"multipleOf": 3}}})"),
            "s.json: /properties/a/multipleOf: this keyword is not supported");
  EXPECT_NE(why(R"({"not": {}})").find("/not"), std::string::npos);
  EXPECT_NE(why(R"({"type": "strng"})").find("there is no type 'strng'"), std::string::npos);
  EXPECT_NE(why(R"({"$ref": "#/$defs/x"})").find("there is no"), std::string::npos);
  EXPECT_NE(why(R"({"$ref": "http://x"})").find("outside the schema"), std::string::npos);
  EXPECT_NE(why(R"({"oneOf": [{"type": "number"}, {"type": "integer"}]})").find("anyOf"),
            std::string::npos);
  EXPECT_NE(why("{\"type\": \"string\", \"pattern\": \"(?=a)\"}").find("not supported"),
            std::string::npos);
  EXPECT_NE(why(R"({"type": "integer", "minimum": 5, "maximum": 4})").find("bounds"),
            std::string::npos);
  EXPECT_NE(why(R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})")
                .find("never comes to an end"),
            std::string::npos);
  EXPECT_NE(why("{").find("s.json"), std::string::npos);
  EXPECT_NE(why("false").find("no value"), std::string::npos);
}

class Tokens : public testing::TestWithParam<const char*> {
 protected:
  Tokenizer tokenizer() const {
    return std::string(GetParam()) == "llama" ? llama_tokenizer() : byte_level_tokenizer();
  }
  /// A special token that ends texts.
  int64_t end() const { return std::string(GetParam()) == "llama" ? 2 : 0; }
};

TEST_P(Tokens, BytesOfTokensAddUpToTheText) {
  const Tokenizer t = tokenizer();
  const std::vector<std::string> bytes = text::token_bytes(t);
  for (const std::string text : {"Lily and 한글 {\"a\": true}\n🙂", "x\t\"é\""}) {
    std::string whole;
    for (const int32_t id : t.encode_ids(text, false)) {
      whole += bytes[static_cast<size_t>(id)];
    }
    EXPECT_EQ(whole, std::string(GetParam()) == "llama" ? " " + text : text);
  }
}

TEST_P(Tokens, TheMaskIsWhatTryingEveryTokenGives) {
  const TokenTable table{tokenizer()};
  const Grammar grammar = Grammar::from_json_schema(
      R"({"type": "object", "properties": {"name": {"type": "string"}, "한": {"type": "boolean"}},
          "required": ["name"]})");
  TokenMatcher matcher(grammar, table);
  Random random(4);
  std::string written;
  for (int step = 0; step < 60; ++step) {
    std::vector<float> logits(static_cast<size_t>(table.trie().size()), 0.0F);
    if (!matcher.mask(logits, std::vector<int64_t>{end()})) {
      FAIL() << written;
    }
    std::vector<int64_t> allowed;
    for (size_t id = 0; id < logits.size(); ++id) {
      const std::string& bytes = table.trie().bytes(static_cast<int64_t>(id));
      const bool ends = static_cast<int64_t>(id) == end();
      const bool wanted = ends ? grammar.matches(written)
                               : !bytes.empty() && grammar.matches_prefix(written + bytes);
      ASSERT_EQ(std::isfinite(logits[id]), wanted) << written << " " << id;
      EXPECT_EQ(matcher.allows(static_cast<int64_t>(id)), !ends && wanted);
      if (wanted && !ends) {
        allowed.push_back(static_cast<int64_t>(id));
      }
    }
    if (allowed.empty()) {
      break;
    }
    const int64_t id = allowed[random.below(allowed.size())];
    ASSERT_TRUE(matcher.accept(id));
    written += table.trie().bytes(id);
  }
  EXPECT_FALSE(matcher.accept(end())) << "a special token is no text";
}

/// Random logits through a grammar until the text ends. What closes things is made likelier, so
/// that texts end.
std::string random_text(const Grammar& grammar, const TokenTable& table, int64_t end,
                        uint64_t seed) {
  TokenMatcher matcher(grammar, table);
  const auto size = static_cast<size_t>(table.trie().size());
  std::vector<float> logits(size);
  Random random(seed);
  std::string written;
  for (int step = 0; step < 5000; ++step) {
    for (size_t id = 0; id < size; ++id) {
      const std::string& bytes = table.trie().bytes(static_cast<int64_t>(id));
      // What ends strings is likelier, and so are the characters that some pattern waits for.
      const bool helps =
          bytes.size() == 1 && std::string_view("]}A@.com").find(bytes) != std::string::npos;
      const float more = step < 40 ? 0.0F : bytes == "\"" ? 6.0F : helps ? 3.0F : 0.0F;
      logits[id] = static_cast<float>(random.normal()) + more;
    }
    logits[static_cast<size_t>(end)] += 3.0F;
    if (!matcher.mask(logits, std::vector<int64_t>{end})) {
      return written + "<nothing may follow>";
    }
    const int64_t id = best_token(logits);
    if (id == end) {
      return written;
    }
    EXPECT_TRUE(matcher.accept(id));
    written += table.trie().bytes(id);
  }
  return written + "<no end>";
}

/// HEED_SCHEMAS=N runs N schemas; HEED_SCHEMAS_OUT=FILE writes them for another validator.
TEST_P(Tokens, EveryTextOfARandomSchemaValidates) {
  const char* told = std::getenv("HEED_SCHEMAS");
  const int count = told != nullptr ? std::atoi(told) : 1000;
  std::ofstream out;
  if (const char* file = std::getenv("HEED_SCHEMAS_OUT")) {
    out.open(file, std::ios::app);
  }
  const TokenTable table{tokenizer()};
  for (int i = 0; i < count; ++i) {
    const auto seed = static_cast<uint64_t>(i);
    const Json5 schema = RandomSchemas(seed).schema();
    std::string text;
    try {
      text = random_text(Grammar::from_json_schema(schema.dump()), table, end(), seed);
    } catch (const Error& error) {
      FAIL() << error.what() << "\n" << schema;
    }
    const Json5 value = Json5::parse(text, nullptr, false);
    ASSERT_FALSE(value.is_discarded()) << schema << "\n" << text;
    ASSERT_TRUE(validates(schema, schema, value)) << schema << "\n" << text;
    if (out) {
      out << Json5{{"schema", schema}, {"text", text}} << "\n";
    }
  }
}

TEST_P(Tokens, AModelWritesWhatTheGrammarAllows) {
  const Tokenizer t = tokenizer();
  const auto model = create_model(
      R"({"model_type": "gpt2", "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 400,
          "initializer_range": 0.6, "vocab_size": )" +
          std::to_string(t.vocab_size()) + "}",
      3);
  const Grammar grammar = Grammar::from_gbnf(
      "root ::= \"[\" item (\", \" item){0,9} \"]\"\nitem ::= \"true\" | [0-9]{1,5} | "
      "\"\\\"한\\\"\"");
  const auto constraint = std::make_shared<TokenConstraint>(grammar, TokenTable(t));
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Request request;
    request.prompt = {5, 7};
    request.max_tokens = 200;
    request.end = {end()};
    request.constraint = constraint;
    request.sampling.seed = seed;
    request.sampling.temperature = seed % 3 == 0 ? 0.0 : 1.0;
    request.sampling.top_k = seed % 3 == 1 ? 5 : 0;
    TextStream stream(t, {}, request.prompt);
    std::string text;
    FinishReason finish = FinishReason::length;
    request.on_token = [&](const SampledToken& token) {
      text += token.id == end() ? "" : stream.push(token.id);
      return true;
    };
    Scheduler scheduler(*model);
    scheduler.add(std::move(request), [&](FinishReason reason) { finish = reason; });
    scheduler.run();
    text += stream.finish();
    EXPECT_EQ(finish, FinishReason::end_token);
    EXPECT_TRUE(grammar.matches(text)) << text;
  }
}

TEST_P(Tokens, WhereNothingMayFollowTheSequenceEnds) {
  const Tokenizer t = tokenizer();
  const auto model = create_model(
      R"({"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 40,
          "vocab_size": )" +
          std::to_string(t.vocab_size()) + "}",
      3);
  Request request;
  request.prompt = {5};
  request.constraint =
      std::make_shared<TokenConstraint>(Grammar::from_gbnf("root ::= \"ab\""), TokenTable(t));
  FinishReason finish = FinishReason::length;
  int tokens = 0;
  request.on_token = [&](const SampledToken&) { return ++tokens > 0; };
  Scheduler scheduler(*model);
  scheduler.add(std::move(request), [&](FinishReason reason) { finish = reason; });
  scheduler.run();
  EXPECT_EQ(finish, FinishReason::stopped) << "there is no end token to choose";
  EXPECT_GE(tokens, 1);
  EXPECT_LE(tokens, 2);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Tokens, testing::Values("llama", "bytes"));

}  // namespace
}  // namespace heed::test
