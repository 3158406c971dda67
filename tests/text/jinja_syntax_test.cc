// The grammar of chat templates: what each construct gives, and every reason to refuse one.
#include <gtest/gtest.h>

#include "heed/text.h"
#include "support/error.h"

namespace heed::test {
namespace {

std::string rendered(const std::string& source) {
  return ChatTemplate::from_text(source).render("[]");
}

TEST(JinjaSyntax, WhatConstructsGive) {
  const std::pair<std::string, std::string> cases[] = {
      // Line ends, and text that only looks like a tag
      {"a\r\nb\rc\r", "a\nb\nc"},
      {"a{", "a{"},
      {"a{b}", "a{b}"},
      // Signs at the edges of tags
      {"{{+ 1 }}", "1"},
      {"{##}a", "a"},
      {"{# x -#}  a", "a"},
      {"{% raw +%}\n{{ x }}{%+ endraw %}", "\n{{ x }}"},
      {"{%- raw -%} {% if {%- endraw -%} b", "{% ifb"},
      {"é {%- if true %}x{% endif %}", "éx"},
      {"\xE3\x80\x80{%- if true %}x{% endif %}", "x"},  // an ideographic space is blank
      // Blanks, names and numbers
      {"{{\x1C 1\x1F }}", "1"},
      {"{% set é = 2 %}{{ é }}", "2"},
      {"{{ 0x1F }} {{ 0Xa }} {{ 1_000 }} {{ 1E2 }} {{ 1e-1 }}", "31 10 1000 100.0 0.1"},
      {"{{ [1, 2,] }} {{ {'a': 1,} }} {{ () }}", "[1, 2] {'a': 1} ()"},
      {"{{ True }} {{ False }} {{ None }} {{ none }} {{ true }}", "True False None None True"},
      {"{{ 1 + +1 }}", "2"},
      {"{{ [4, 5].1 }}", "5"},
      // Strings
      {R"({{ '\1' }}{{ '\101b' }}{{ '\7 ' }}{{ '\08' }})", std::string("\1Ab\7 \0"
                                                                       "8",
                                                                       7)},
      {R"({{ '\x41\u00e9\U0001F600\q\
' }})",
       "Aé😀\\q"},
      {"{{ 'a' 'b' }}", "ab"},
      {R"({{ 'a\n\'' }})", "a\n'"},
      // Tuples
      {"{% set a = 1, %}{{ a }}", "(1,)"},
      {"{{ (1,) }}{{ 1, }}", "(1,)(1,)"},
      {"{% for a, in [[1]] %}{{ a }}{% endfor %}", "1"},
      {"{% for (a, b) in [[1, 2]] %}{{ a + b }}{% endfor %}", "3"},
      {"{% for a in 1, recursive %}{{ a }}{% endfor %}", "1"},
      {"{% for a in [1, 2] if a > 1 %}{{ a }}{% else %}none{% endfor %}", "2"},
      // Calls
      {"{% macro f(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ f(1,) }}{{ f(*[3, 4]) }}", "1234"},
      {"{% macro f() %}{{ caller() }}{% endmacro %}{% call f() %}x{% endcall %}", "x"},
      {"{% macro f() %}{{ caller(1) }}{% endmacro %}{% call(a) f() %}{{ a }}{% endcall %}", "1"},
      // Tests with operands of every kind, and what may follow a test without one
      {"{{ 9 is divisibleby 3 }} {{ 'a' is eq 'a' }} {{ 1.5 is eq 1.5 }} {{ [1] is eq [1] }}",
       "True True True True"},
      {"{{ {'a': 1} is eq {'a': 1} }} {{ 1 is eq(1) }}", "True True"},
      {"{{ 'y' if 1 is defined else 'n' }}", "y"},
      {"{{ 1 is number and 2 is number or false }}", "True"},
      {"{{ (1 is number) in [true] }} {{ 1 is number in [true] }}", "True True"},
      {"{{ 1 is number not in [true] }}", "False"},
      {"{% for a in [1] %}{{ a is number if a }}{% endfor %}", "True"},
      {"{{ not (1 in [2]) }} {{ 1 not in [2] }}", "True True"},
      {"{{ not in [1] }}", "False"},  // a name like any other here
      // Slices
      {"{{ [1, 2, 3][1:] }}{{ [1, 2, 3][:1] }}{{ [1, 2, 3][::2] }}", "[2, 3][1][1, 3]"},
  };
  for (const auto& [source, wanted] : cases) {
    EXPECT_EQ(rendered(source), wanted) << source;
  }
}

TEST(JinjaSyntax, EveryRefusalSaysWhereAndWhat) {
  const std::pair<std::string, std::string> cases[] = {
      // Tags that never end
      {"{{", "line 1: a tag is not closed (}} is missing)"},
      {"{%", "line 1: a tag is not closed (%} is missing)"},
      {"{%   ", "line 1: a tag is not closed (%} is missing)"},
      {"{{ a", "a tag is not closed"},
      {"{{ 1", "a tag is not closed"},
      {"{{ 1.", "a tag is not closed"},
      {"{{ 1e", "a tag is not closed"},
      {"{{ 0x1", "a tag is not closed"},
      {"{% raw", "a tag is not closed (%} is missing)"},
      {"\n{# a", "line 2: a comment is not closed"},
      {"{% raw %}a", "line 1: a raw block is not closed"},
      {"{% raw %}a{%", "line 1: a raw block is not closed"},
      {"{{ 'a }}", "line 1: a string is not closed"},
      {R"({{ 'a\' }})", "line 1: a string is not closed"},
      // Characters and escapes
      {"{{ @ }}", "the character '@' has no meaning in a tag"},
      {"{{ \x01 }}", "the character '?' has no meaning in a tag"},
      {R"({{ '\x4' }})", "an escape that is not complete"},
      {R"({{ '\xg1' }})", "an escape that is not complete"},
      {R"({{ '\U11000000' }})", "an escape that is not complete"},
      {R"({{ '\U00110000' }})", "an escape that is no character"},
      {R"({{ '\ud800' }})", "an escape that is no character"},
      {"{{ 99999999999999999999 }}", "the number '99999999999999999999' is out of range"},
      // What stands where something else is expected
      {"{{ }}", "found the end of the tag, expected an expression"},
      {"{% if %}", "found the end of the block, expected an expression"},
      {"{{ '' '' x }}", "found 'x', expected }}"},
      {"{{ x '' }}", "found an empty string, expected }}"},
      {"{% if true %}a", "found the end of the template, expected 'endif'"},
      {"{% endif %}", "the tag 'endif' is not known here"},
      {"{{ 1em }}", "found 'em', expected }}"},
      {"{{ 1.e }}{{ (1 2) }}", "found '2', expected ')'"},
      {"{{ a[] }}", "found ']', expected an index"},
      {"{{ a[1 2] }}", "found '2', expected ']'"},
      {"{{ a[1:2:3:4] }}", "expected ']'"},
      {"{{ f(a=1, 2) }}", "expected a named argument"},
      {"{{ 1 is number is number }}", "two tests in a row need 'and' between them"},
      {"{% for a of b %}{% endfor %}", "found 'of', expected 'in'"},
      {"{% for 1 in b %}{% endfor %}", "found '1', expected a name"},
      {"{% for a, 1 in b %}{% endfor %}", "found '1', expected 'in'"},
      {"{{ 1, = }}", "found '=', expected }}"},
      {"{{ 1 not 2 }}", "found 'not', expected }}"},
      {"{{ 'a'|upper()() }}", "call"},
      {"{% break %}", "'break' outside of a loop"},
      {"{% call 1 %}{% endcall %}", "{% call %} needs a call of a macro"},
      {"{% set a = 1 2 %}", "found '2', expected %}"},
  };
  for (const auto& [source, why] : cases) {
    EXPECT_ERROR((void)rendered(source), why) << source;
  }
}

}  // namespace
}  // namespace heed::test
