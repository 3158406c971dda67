// What GBNF and JSON schemas may hold, and every reason to refuse one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "generate/grammar_rules.h"
#include "generate/json_schema.h"
#include "heed/generate.h"
#include "support/error.h"
#include "tokenizers.h"

namespace heed::test {
namespace {

struct Accepted {
  const char* source;
  std::vector<std::string> yes;
  std::vector<std::string> no;
};
struct Refused {
  std::string source;
  const char* why;
};

void expect_language(const Grammar& grammar, const Accepted& accepted) {
  for (const std::string& text : accepted.yes) {
    EXPECT_TRUE(grammar.matches(text)) << accepted.source << " should allow " << text;
  }
  for (const std::string& text : accepted.no) {
    EXPECT_FALSE(grammar.matches(text)) << accepted.source << " should not allow " << text;
  }
}

TEST(GbnfSyntax, NamesBlanksAndEscapes) {
  const Accepted cases[] = {
      {"root\t::=\tA_1-b\r\nA_1-b ::= \"x\"", {"x"}, {""}},
      {"root ::= \"\\t\\r\\n\\\\\\[\\]\\-\\^\\U0001F600\"", {"\t\r\n\\[]-^\U0001F600"}, {"\t"}},
      {"root ::= [a-]", {"a", "-"}, {"b"}},
      {"root ::= [\\]\\^]", {"]", "^"}, {"\\"}},
      {"root ::= \"a\" # the end", {"a"}, {"b"}},
      {"root ::= Z9 | \"\\x7a\"\nZ9 ::= \"\\uD7FF\" | \"\\uE000\"",
       {"z", "\xED\x9F\xBF", "\xEE\x80\x80"},
       {""}},
  };
  for (const Accepted& each : cases) {
    expect_language(Grammar::from_gbnf(each.source, "g"), each);
  }
}

TEST(GbnfSyntax, EveryRefusalSaysWhy) {
  const Refused cases[] = {
      {"root ::= \"a\" )", "line 1: ')' is not expected here"},
      {"root ::= \"\\x4", "'4' is no code point of 2 hexadecimal digits"},
      {"root ::= \"\\xg0\"", "'g0' is no code point"},
      {"root ::= \"\\x0g\"", "'0g' is no code point"},
      {"root ::= \"\\U00110000\"", "'00110000' is no code point of 8 hexadecimal digits"},
      {"root ::= \"\\uD800\"", "'D800' is no code point"},
      {"root ::= \"\\uDFFF\"", "'DFFF' is no code point"},
      {"root ::= \"a\"{}", "{n}, {n,} or {n,m} is expected"},
      {"root ::= \"a\"{1", "{n}, {n,} or {n,m} is expected"},
      {"root ::= \"a\\", "\\ stands at the end"},
      {"root ::= [a-", "the class has no closing ]"},
      {"root ::= []", "the class holds no character"},
      {"root ::= \"\xff\"", "the text is not UTF-8"},
      {"::= \"a\"", "the name of a rule is expected, not ':'"},
      {"root ::= \"a\"\n\n\n root", "line 4: '::=' is expected behind 'root'"},
  };
  for (const Refused& each : cases) {
    EXPECT_ERROR(Grammar::from_gbnf(each.source, "g.gbnf"), each.why) << each.source;
  }
}

std::string with_pattern(const std::string& pattern) {
  return R"({"type":"string","pattern":")" + pattern + R"("})";
}

TEST(SchemaPattern, EveryConstruct) {
  const Accepted cases[] = {
      {R"(^\\d\\D\\w\\W\\s\\S$)", {R"("1a_- x")", R"("0:Z~\tx")"}, {R"("aa_- x")", R"("1")"}},
      {R"(^a\\nb\\tc\\rd$)", {R"("a\nb\tc\rd")"}, {R"("anbtcrd")"}},
      {R"(^\\.\\-\\é$)", {R"(".-é")"}, {R"("x-é")"}},
      {R"(^[a-][\\d-x][b\\-c]$)", {R"("a1b")", R"("--c")", R"("ax-")"}, {R"("b1b")"}},
      {R"(^(?:ab|c){1,2}?$)", {R"("ab")", R"("cab")"}, {R"("")", R"("ccc")"}},
      {R"(^a{2,}$)", {R"("aa")", R"("aaaa")"}, {R"("a")"}},
      {R"(^[^a-y]$)", {R"("z")"}, {R"("a")"}},
      {R"(a|b)", {R"("xa")", R"("bx")"}, {R"("xyz")"}},
      {R"(b$)", {R"("ab")"}, {R"("ba")"}},
  };
  for (const Accepted& each : cases) {
    expect_language(Grammar::from_json_schema(with_pattern(each.source)), each);
  }
}

TEST(SchemaPattern, EveryRefusalSaysWhy) {
  const Refused cases[] = {
      {"a)b", "')b' is not supported here"},
      {"^a|b", "^ and $ beside | at the outermost level are not supported"},
      {"a|b$", "^ and $ beside | at the outermost level are not supported"},
      {"(?=a)", "groups that begin with (? are not supported"},
      {"(a", "a parenthesis is not closed"},
      {std::string(70, '(') + "a" + std::string(70, ')'), "parentheses are nested too deeply"},
      {"*a", "'*' is not expected here"},
      {R"(\\b)", "this escape with a backslash is not supported"},
      {R"(a\\)", "this escape with a backslash is not supported"},
      {"[a", "a class has no closing ]"},
      {"[a-", "a class has no closing ]"},
      {"[z-a]", "a range of a class ends before it begins"},
      {R"([a-\\s])", "a range of a class ends before it begins"},
      {"a{}", "{n}, {n,} or {n,m} is expected"},
      {"a{3,1}", "{n}, {n,} or {n,m} is expected"},
      {"a{1", "{n}, {n,} or {n,m} is expected"},
      {"a{99999999999999999999}", "{n}, {n,} or {n,m} is expected"},
  };
  for (const Refused& each : cases) {
    EXPECT_ERROR(Grammar::from_json_schema(with_pattern(each.source), "s"), each.why)
        << each.source;
  }
}

TEST(SchemaKeywords, WhatTheyAllow) {
  const Accepted cases[] = {
      {R"({"type":"string","format":"date"})", {R"("2026-11-28")"}, {R"("2026-13-01")"}},
      {R"({"type":"string","format":"time"})", {R"("23:59:00Z")"}, {R"("24:00:00Z")"}},
      {R"({"type":"string","format":"uuid"})",
       {R"("123e4567-e89b-12d3-a456-426614174000")"},
       {R"("123")"}},
      {R"({"type":"string","format":"email"})", {R"("any text")"}, {"1"}},
      {R"({"type":"string","format":7})", {R"("any text")"}, {"1"}},
      {R"({"type":"string","format":"date","maxLength":3})", {R"("abc")"}, {R"("abcd")"}},
      {R"({"type":"array","uniqueItems":false,"x-note":1})", {"[1,1]"}, {"1"}},
      {R"({})", {"1", "null", "[]"}, {""}},
      {R"(true)", {"1", "{}"}, {""}},
      {R"({"type":"string","nullable":true})", {R"("a")", "null"}, {"1"}},
      {R"({"minimum":3})", {"3", "3.5"}, {"2"}},
      {R"({"type":"integer","minimum":2,"exclusiveMinimum":2})", {"3"}, {"2"}},
      {R"({"type":"integer","minimum":2,"exclusiveMinimum":1})", {"2"}, {"1"}},
      {R"({"type":"integer","exclusiveMinimum":1.5,"exclusiveMaximum":4.5})", {"2", "4"}, {"5"}},
      {R"({"type":"integer","maximum":2,"exclusiveMaximum":2})", {"1"}, {"2"}},
      {R"({"type":"integer","minimum":-999999999999999})", {"-7"}, {"1.5"}},
      {R"({"type":"integer","exclusiveMinimum":-999999999999999})", {"0"}, {"1.5"}},
      {R"({"enum":["a",1,null],"type":["string","null"]})", {R"("a")", "null"}, {"1"}},
      {R"({"const":5,"type":"integer"})", {"5"}, {"6"}},
      {R"({"type":"array","items":[{"const":1}],"additionalItems":false})", {"[1]"}, {"[1,1]"}},
      {R"({"type":"array","items":false})", {"[]"}, {"[1]"}},
      {R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"}},
      {R"({"type":"array","prefixItems":[{"const":1},{"const":2}],"maxItems":1})",
       {"[1]"},
       {"[1,2]"}},
      {R"({"required":["b","b"],"additionalProperties":{"type":"null"}})",
       {R"({"b":null})"},
       {"{}", R"({"b":1})"}},
      {R"({"$ref":"#/$defs/a","$defs":{"a":{"const":1}},"title":"t","description":"d",)"
       R"("default":1,"$comment":"c","definitions":{}})",
       {"1"},
       {"2"}},
      {R"({"$schema":"http://json-schema.org/draft-07/schema#","$id":"i",)"
       R"("$ref":"#/definitions/a","definitions":{"a":{"const":1}}})",
       {"1"},
       {"2"}},
      {R"({"type":"array","items":{"$ref":"#"},"maxItems":1})", {"[]", "[[]]"}, {"[1]"}},
  };
  for (const Accepted& each : cases) {
    expect_language(Grammar::from_json_schema(each.source), each);
  }
}

TEST(SchemaKeywords, EveryRefusalSaysWhere) {
  std::string deep = R"({"$ref":"#/$defs/0","$defs":{)";  // each refers to the next
  for (int i = 0; i < 140; ++i) {
    deep += fmt::format(R"("{}":{{"$ref":"#/$defs/{}"}},)", i, i + 1);
  }
  deep += R"("140":true}})";
  const Refused cases[] = {
      {R"({"uniqueItems":true})", "/uniqueItems: this keyword is not supported"},
      {R"({"minLength":"3"})", "/minLength: a whole number from 0 to 65536 is expected"},
      {R"({"minLength":-1})", "/minLength: a whole number from 0 to 65536 is expected"},
      {R"({"minLength":65537})", "/minLength: a whole number from 0 to 65536 is expected"},
      {R"({"minLength":1.5})", "/minLength: a whole number from 0 to 65536 is expected"},
      {R"({"enum":1})", "/enum: a list of values is expected"},
      {R"({"enum":[]})", "/enum: a list of values is expected"},
      {R"({"enum":[1],"type":"string"})", "/enum: no value has the type"},
      {R"({"const":1,"type":"string"})", "/const: no value has the type"},
      {R"({"const":1,"enum":[2]})", "/const: no value has the type"},
      {R"({"$ref":"http://x"})", "/$ref: 'http://x' points outside the schema"},
      {R"({"$ref":"#/none"})", "/$ref: there is no '#/none' in the schema"},
      {R"({"$ref":1})", "/$ref: a string is expected"},
      {R"({"$ref":"#","type":"string"})", "/type: beside $ref this keyword is not supported"},
      {R"({"anyOf":1})", "/anyOf: a list of schemas is expected"},
      {R"({"anyOf":[]})", "/anyOf: a list of schemas is expected"},
      {R"({"items":1})", "/items: a schema is an object, true or false"},
      {R"({"type":[]})", "/type: the list is empty"},
      {R"({"type":[1]})", "/type: there is no type ''"},
      {R"({"type":"text"})", "/type: there is no type 'text'"},
      {R"({"minLength":3,"maxLength":2})", "/maxLength: is less than minLength"},
      {R"({"pattern":"a","minLength":1})", "/pattern: together with minLength or maxLength"},
      {R"({"minimum":"1"})", "/minimum: a number is expected"},
      {R"({"type":"integer","minimum":1.2,"maximum":1.8})", "no whole number lies within"},
      {R"({"minItems":3,"maxItems":2})", "/maxItems: is less than minItems"},
      {R"({"prefixItems":[true],"items":false,"minItems":2})",
       "/minItems: is more than prefixItems allow"},
      {R"({"properties":1})", "/properties: an object is expected"},
      {R"({"required":[1]})", "/required: a list of strings is expected"},
      {R"({"required":["a"],"additionalProperties":false})",
       "/required: 'a' is required and not allowed"},
      {R"({"properties":{"a":false}})", "/properties/a: false allows no value"},
      {R"({"pattern":1})", "a keyword has a value of a wrong type"},
      {deep, "schemas are nested too deeply"},
  };
  for (const Refused& each : cases) {
    EXPECT_ERROR(Grammar::from_json_schema(each.source, "s"), each.why) << each.source;
  }
}

TEST(SchemaMerge, WhatFitsAllParts) {
  const Accepted cases[] = {
      {R"({"allOf":[{"type":["integer","string"]},{"type":"number"}]})", {"1"}, {"1.5", "\"a\""}},
      {R"({"allOf":[{"type":"number"},{"type":["integer","null"]}]})", {"1"}, {"1.5", "null"}},
      {R"({"allOf":[{"type":["null","string"]},{"type":["string","null","array"]}]})",
       {"null", "\"a\""},
       {"[]"}},
      {R"({"allOf":[{"type":"string"},{"type":"string"}]})", {"\"a\""}, {"1"}},
      {R"({"allOf":[{"minLength":1},{"minLength":3}]})", {"\"abc\""}, {"\"ab\""}},
      {R"({"allOf":[{"minLength":3},{"minLength":1}]})", {"\"abc\""}, {"\"ab\""}},
      {R"({"allOf":[{"maxLength":1},{"maxLength":3}]})", {"\"a\""}, {"\"ab\""}},
      {R"({"allOf":[{"maxLength":3},{"maxLength":1}]})", {"\"a\""}, {"\"ab\""}},
      {R"({"type":"integer","allOf":[{"exclusiveMinimum":1},{"exclusiveMinimum":3}]})",
       {"4"},
       {"3"}},
      {R"({"type":"integer","allOf":[{"exclusiveMaximum":1},{"exclusiveMaximum":3}]})",
       {"0"},
       {"1"}},
      {R"({"type":"object","allOf":[{"properties":{"a":{"minimum":1}},"required":["a"]},)"
       R"({"properties":{"a":{"maximum":1},"b":true},"required":["a","b"]}]})",
       {R"({"a":1,"b":2})"},
       {R"({"a":1})", R"({"a":2,"b":2})"}},
      {R"({"allOf":[true,{"const":1}]})", {"1"}, {"2"}},
      {R"({"type":"integer","allOf":[true]})", {"1"}, {"1.5"}},
      {R"({"type":"integer","title":"a","description":"b","default":1,"examples":[1],)"
       R"("$comment":"c","allOf":[{"title":"x","description":"y","default":2,"examples":[2],)"
       R"("$comment":"z"}]})",
       {"1"},
       {"1.5"}},
      {R"({"title":"t","description":"d","$schema":"s","$id":"i","$defs":{"a":{"const":1}},)"
       R"("definitions":{"b":true},"allOf":[{"$ref":"#/$defs/a"}]})",
       {"1"},
       {"2"}},
      {R"({"$defs":{"a":{"const":1}},"allOf":[{"type":"integer","$defs":{"b":{"const":2}}},)"
       R"({"definitions":{"c":true}}],"definitions":{"d":true}})",
       {"1"},
       {"1.5"}},
      {R"({"properties":{"a":true},"additionalProperties":false,)"
       R"("allOf":[{"properties":{"a":{"const":1}}}]})",
       {R"({"a":1})"},
       {R"({"a":2})"}},
      {R"({"additionalProperties":true,"allOf":[{"properties":{"a":{"const":1}}}]})",
       {R"({"a":1})"},
       {R"({"a":2})"}},
      {R"({"oneOf":[{"const":{"a":1}},{"const":[1]},{"const":true},{"const":null},{"const":1.5}]})",
       {"[1]", "true", "null", "1.5"},
       {"2"}},
      {R"({"oneOf":[{"enum":[1,2]},{"enum":[3]},{"type":"string"}]})", {"3"}, {"4"}},
  };
  for (const Accepted& each : cases) {
    expect_language(Grammar::from_json_schema(each.source), each);
  }
}

TEST(SchemaMerge, EveryRefusalSaysWhy) {
  const Refused cases[] = {
      {R"({"allOf":[{"type":"string"},{"type":"integer"}]})", "/allOf: no type fits all of it"},
      {R"({"allOf":[{"type":"number"},{"type":"null"}]})", "/allOf: no type fits all of it"},
      {R"({"allOf":[{"type":"integer"},{"type":"null"}]})", "/allOf: no type fits all of it"},
      {R"({"allOf":[{"properties":{"a":false}},{"properties":{"a":{"type":"null"}}}]})",
       "/allOf: false allows no value"},
      {R"({"allOf":[{"pattern":"a"},{"pattern":"b"}]})",
       "two different 'pattern' cannot be joined"},
      {R"({"type":"string","allOf":[false]})", "/allOf: false allows no value"},
      {R"({"type":"string","allOf":[{"$ref":"#"}]})",
       "'$ref' cannot be joined with other keywords"},
      {R"({"type":"string","allOf":[{"anyOf":[true]}]})", "'anyOf' cannot be joined"},
      {R"({"type":"string","allOf":[{"oneOf":[true]}]})", "'oneOf' cannot be joined"},
      {R"({"type":"string","allOf":[{"allOf":[true]}]})", "'allOf' cannot be joined"},
      {R"({"additionalProperties":false,"allOf":[{"properties":{"a":true}}]})",
       "additionalProperties of one part does not allow 'a' of another"},
      {R"({"properties":{"a":true},"allOf":[{"additionalProperties":{"type":"null"}}]})",
       "additionalProperties of one part does not allow 'a' of another"},
      {R"({"allOf":[{"minLength":"a"},{"minLength":1}]})", "a value of a wrong type"},
      {R"({"oneOf":[{"type":"string"},false]})", "/oneOf/1: false allows no value"},
      {R"({"oneOf":[false,{"type":"string"}]})", "/oneOf/0: false allows no value"},
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "may fit the same value"},
      {R"({"oneOf":[{"type":"number"},{"type":"integer"}]})", "may fit the same value"},
      {R"({"oneOf":[{"enum":[1,2]},{"enum":[2]}]})", "may fit the same value"},
      {R"({"oneOf":[true,{"type":"string"}]})", "may fit the same value"},
      {R"({"oneOf":[{"type":"string"},true]})", "may fit the same value"},
      {R"({"oneOf":[{"type":"string"},{"type":[1]}]})", "there is no type ''"},
      {R"({"oneOf":[{"type":"object"},{"type":["object","null"]}]})", "may fit the same value"},
      {R"({"oneOf":[{"type":"object","properties":{"a":{"const":1}},"required":["a"]},)"
       R"({"type":"object","properties":{"b":{"const":1},"a":{"const":2}}}]})",
       "may fit the same value"},
      {R"({"oneOf":[{"type":"object","properties":{"a":{"const":1}}},)"
       R"({"type":"object","properties":{"a":{"const":2}},"required":["a"]}]})",
       "may fit the same value"},
      {R"({"oneOf":[{"type":"object","properties":{"a":{"const":1}},"required":["a"]},)"
       R"({"type":"object","properties":{"a":{"const":1}},"required":["a"]}]})",
       "may fit the same value"},
  };
  for (const Refused& each : cases) {
    EXPECT_ERROR(Grammar::from_json_schema(each.source, "s"), each.why) << each.source;
  }
}

TEST(SchemaMerge, SchemasThatShareNoValue) {
  const auto schema = [](const char* text) { return Schema::parse(text); };
  EXPECT_TRUE(are_disjoint(schema(R"({"type":"null"})"), false));
  EXPECT_TRUE(are_disjoint(false, schema(R"({"type":"null"})")));
  EXPECT_FALSE(are_disjoint(schema(R"({"const":"a"})"), schema(R"({"type":"string"})")));
  EXPECT_FALSE(
      are_disjoint(schema(R"({"type":"object"})"), schema(R"({"type":["object","null"]})")));
  EXPECT_FALSE(
      are_disjoint(schema(R"({"type":["object","null"]})"), schema(R"({"type":"object"})")));
}

// What a few kilobytes unfold to: none of it may end the process, and none may take long.

std::string repeated(const std::string& text, int64_t count) {
  std::string all;
  for (int64_t i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

TEST(GrammarBounds, RepetitionsOfRepetitionsAreRefused) {
  for (const char* suffix : {"?", "+", "*", "{1}", "{0,2}"}) {
    EXPECT_ERROR(Grammar::from_gbnf("root ::= \"a\"" + repeated(suffix, 20000), "g.gbnf"),
                 "g.gbnf: line 1: repetitions are nested too deeply");
    EXPECT_TRUE(Grammar::from_gbnf("root ::= \"a\"" + repeated(suffix, 100)).matches("a"));
  }
  const std::string deep = repeated("(", 250) + "\"a\"" + repeated(repeated("?", 200) + ")", 250);
  EXPECT_ERROR(Grammar::from_gbnf("root ::= " + deep, "g.gbnf"), "nested too deeply");
}

TEST(GrammarBounds, ExpressionsThatAreTooDeepAreRefusedWhoeverMakesThem) {
  GrammarNodePtr node = literal_node("a");
  const auto grow = [&] {
    for (int i = 0; i <= kDeepestNode; ++i) {
      node = optional_node(node);
    }
  };
  EXPECT_ERROR(grow(), "grammar: expressions are nested too deeply");
}

TEST(GrammarBounds, ExponentiallyManyEmptyDerivationsEnd) {
  std::string rules = "root ::= a0 \"x\"\n";
  for (int i = 0; i < 60; ++i) {
    rules += fmt::format("a{} ::= a{} a{}\n", i, i + 1, i + 1);
  }
  for (const char* last : {"a60 ::= . | ", "a60 ::= \"\""}) {
    EXPECT_ERROR(Grammar::from_gbnf(rules + last, "g.gbnf"), "g.gbnf: is too ambiguous");
  }
  // Behind its beginning it goes on without end: no token fits, and nothing is out of bounds.
  std::string behind = rules;
  behind.replace(0, behind.find('\n'), "root ::= \"y\" a0 \"x\"");
  const Grammar late = Grammar::from_gbnf(behind + "a60 ::= \"\"");
  TokenMatcher matcher(late, TokenTable(byte_level_tokenizer()));
  std::vector<float> logits(300, 0.0F);
  EXPECT_FALSE(matcher.mask(logits, {}));
  EXPECT_FALSE(matcher.may_end());
  EXPECT_FALSE(late.matches("yx"));
}

TEST(GrammarBounds, SchemasWithThousandsOfPartsCompile) {
  const std::string items = repeated("true,", 19999) + "true";
  const Grammar list = Grammar::from_json_schema(R"({"type":"array","prefixItems":[)" + items +
                                                 R"(],"items":false})");
  EXPECT_TRUE(list.matches("[1, \"a\", null]"));
  EXPECT_FALSE(list.matches("[1,]"));

  std::string properties, required;
  for (int i = 0; i < 20000; ++i) {
    properties += fmt::format(R"({}"p{}":{{"type":"null"}})", i == 0 ? "" : ",", i);
    required += fmt::format(R"({}"p{}")", i == 0 ? "" : ",", i);
  }
  const Grammar object = Grammar::from_json_schema(fmt::format(
      R"({{"type":"object","properties":{{{}}},"required":[{}]}})", properties, required));
  EXPECT_TRUE(object.matches_prefix(R"({"p0":null, "p1":null, "p2":n)"));
  EXPECT_FALSE(object.matches_prefix(R"({"p1")"));
}

TEST(GrammarBounds, SchemasWhosePartsMultiplyAreRefused) {
  const auto list = [](int count, auto&& each) {
    std::string all;
    for (int i = 0; i < count; ++i) {
      all += (i == 0 ? "" : ",") + each(i);
    }
    return "[" + all + "]";
  };
  const auto constant = [](int i) { return fmt::format(R"({{"const":"k{}"}})", i); };
  const std::string many = list(20000, [](int i) { return fmt::format(R"("k{}")", i); });
  const std::string titles =
      list(2000, [](int i) { return fmt::format(R"({{"title":"{}"}})", i); });
  const std::string parts = list(20000, [](int i) {
    return fmt::format(R"({{"properties":{{"p{}":{{"type":"null"}}}}}})", i);
  });
  for (const std::string& schema :
       {R"({"enum":)" + many + R"(,"anyOf":)" + titles + "}",
        R"({"oneOf":)" + list(20000, constant) + "}", R"({"allOf":)" + parts + "}"}) {
    EXPECT_ERROR(Grammar::from_json_schema(schema, "schema"), "multiply each other");
  }
  EXPECT_TRUE(
      Grammar::from_json_schema(R"({"oneOf":)" + list(500, constant) + "}").matches(R"("k499")"));
  EXPECT_TRUE(Grammar::from_json_schema(R"({"enum":)" + many + "}").matches(R"("k77")"));
}

TEST(GrammarBounds, LongNamesBesideAdditionalProperties) {
  const auto schema = [](size_t length, const char* others) {
    return fmt::format(R"({{"type":"object","properties":{{"{}":{{"type":"null"}}}},)"
                       R"("additionalProperties":{}}})",
                       std::string(length, 'n'), others);
  };
  EXPECT_ERROR(Grammar::from_json_schema(schema(100000, "true"), "schema"),
               "schema: /properties: a name has 100000 bytes");
  const Grammar longest = Grammar::from_json_schema(schema(512, R"({"type":"boolean"})"));
  EXPECT_TRUE(longest.matches(R"({")" + std::string(512, 'n') + R"(":null})"));
  EXPECT_FALSE(longest.matches(R"({")" + std::string(512, 'n') + R"(":true})"));
  EXPECT_TRUE(longest.matches(R"({")" + std::string(511, 'n') + R"(":true})"));
  EXPECT_TRUE(Grammar::from_json_schema(schema(100000, "false"))
                  .matches(R"({")" + std::string(100000, 'n') + R"(":null})"));
}

}  // namespace
}  // namespace heed::test
