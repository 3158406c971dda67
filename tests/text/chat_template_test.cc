#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heed/runtime.h"
#include "heed/text.h"
#include "support/budget.h"
#include "support/data.h"
#include "support/error.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using Pairs = std::vector<std::pair<std::string, std::string>>;

/// The order of keys counts: templates print dictionaries.
using Ordered = nlohmann::ordered_json;

Ordered read(const fs::path& path) { return Ordered::parse(std::ifstream(path)); }

ChatOptions options_of(const Ordered& c, const Ordered& document) {
  const auto text = [&](const char* key) {
    return c.contains(key) && !c[key].is_null() ? c[key].dump() : std::string();
  };
  ChatOptions options;
  options.add_generation_prompt = c.value("add_generation_prompt", false);
  options.tools = text("tools");
  options.documents = text("documents");
  options.variables = text("variables");
  options.now = std::chrono::system_clock::from_time_t(document["now"].get<std::time_t>());
  return options;
}

/// Renders every case of a file made by tests/golden/generate_chat.py; returns how many agree.
int check_file(const fs::path& path) {
  setenv("TZ", "UTC", 1);
  tzset();
  const Ordered document = read(path);
  Pairs tokens;
  for (const auto& [name, token] : document["special_tokens"].items()) {
    tokens.emplace_back(name, token.get<std::string>());
  }
  const auto chat = ChatTemplate::from_text(document["template"].get<std::string>(), tokens);
  int agreed = 0;
  for (const Ordered& c : document["cases"]) {
    SCOPED_TRACE(path.filename().string() + ": " + c["messages"].dump().substr(0, 300));
    const ChatOptions options = options_of(c, document);
    if (!c.contains("text")) {
      // A template's own message is handed on; what Jinja calls undefined, heed does, too.
      const auto error = c["error"].get<std::string>();
      const std::string own = "TemplateError: ";
      EXPECT_ERROR((void)chat.render(c["messages"].dump(), options),
                   error.starts_with(own) ? error.substr(own.size()) : "undefined")
          << error;
      ++agreed;
      continue;
    }
    try {
      const RenderedChat rendered = chat.render_with_spans(c["messages"].dump(), options);
      EXPECT_EQ(rendered.text, c["text"].get<std::string>());
      agreed += rendered.text == c["text"].get<std::string>() ? 1 : 0;
      if (c.contains("assistant")) {
        Ordered spans = Ordered::array();
        for (const TextSpan& span : rendered.assistant) {
          spans.push_back({span.begin, span.end});
        }
        EXPECT_EQ(spans, c["assistant"]);
      }
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  return agreed;
}

void check_folder(const fs::path& folder, int at_least) {
  int agreed = 0;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& path : files) {
    agreed += check_file(path);
  }
  EXPECT_GE(agreed, at_least);
}

TEST(ChatTemplate, RendersOurTemplatesAsTransformersDoes) {
  check_folder(test::golden("chat"), 150);
}

/// Templates of known models, which are not part of the project (generate_chat.py --templates).
TEST(ChatTemplateModels, RenderAsTransformersDoes) {
  const char* models = std::getenv("HEED_MODELS");
  if (models == nullptr || !fs::exists(fs::path(models) / "chat")) {
    GTEST_SKIP() << "needs $HEED_MODELS/chat, made by tests/golden/generate_chat.py --templates";
  }
  check_folder(fs::path(models) / "chat", 1);
}

std::string render(const std::string& source, const std::string& messages = "[]",
                   const ChatOptions& options = {}) {
  return ChatTemplate::from_text(source).render(messages, options);
}

/// The message of the error that rendering gives.
std::string error_of(const std::string& source, const ChatOptions& options = {}) {
  try {
    const std::string text = render(source, "[]", options);
    ADD_FAILURE() << source << " gave " << text.size() << " bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    return error.what();
  }
  return "";
}

TEST(ChatTemplate, MessagesKeepTheOrderOfTheirFields) {
  const ChatMessage messages[] = {
      {"user", "a \"b\""},
      {.role = "assistant",
       .content = std::nullopt,
       .tool_calls = R"([{"function": {"name": "f"}}])"},
      {.role = "tool", .content = "1", .name = "f", .tool_call_id = "x"}};
  const auto chat =
      ChatTemplate::from_text("{% for m in messages %}{{ m | tojson }}\n{% endfor %}");
  EXPECT_EQ(chat.render(messages),
            "{\"role\": \"user\", \"content\": \"a \\\"b\\\"\"}\n"
            "{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\"}}]}\n"
            "{\"role\": \"tool\", \"content\": \"1\", \"name\": \"f\", \"tool_call_id\": \"x\"}\n");
}

TEST(ChatTemplate, ErrorsNameTemplateAndLine) {
  EXPECT_EQ(error_of("a\n{{ messages.x.y }}"),
            "chat template: chat template, line 2: 'x' is undefined, so it has no 'y'");
  EXPECT_NE(
      error_of("{{ raise_exception('roles must\\nalternate') }}").find("roles must\\x0aalternate"),
      std::string::npos);
  EXPECT_ERROR(ChatTemplate::from_text("{% if %}"),
               "chat template: chat template: line 1: found the end of the block");
  EXPECT_ERROR(ChatTemplate::from_text("{% for x in y %}"),
               "chat template: chat template: line 1: found the end of the template");
  EXPECT_ERROR(ChatTemplate::from_text("{{ 'a"),
               "chat template: chat template: line 1: a string is not closed");
  EXPECT_ERROR((void)ChatTemplate::from_text("").render("{}"), "messages: is not a JSON array");
  EXPECT_ERROR((void)ChatTemplate::from_text("").render("[1"),
               "messages: is not valid JSON at byte 3");
}

TEST(ChatTemplate, NothingOutsideCanBeReached) {
  const std::pair<const char*, const char*> refused[] = {
      {"{% include 'x' %}", "the tag 'include' is not known here"},
      {"{% import 'x' as y %}", "the tag 'import' is not known here"},
      {"{% extends 'x' %}", "the tag 'extends' is not known here"},
      {"{{ ''.__class__.__mro__ }}", "'__class__' is undefined"},
      {"{{ messages.append(1) }}", "calls 'append', which is undefined"},
      {"{{ {}.update({}) }}", "calls 'update', which is undefined"},
      {"{{ lipsum.__globals__ }}", "'lipsum' is undefined"},
      {"{{ cycler.__init__ }}", "'cycler' is undefined"},
      {"{{ self._TemplateReference__context }}", "'self' is undefined"},
      {"{{ messages.__class__() }}", "calls '__class__', which is undefined"},
      {"{{ open('/etc/passwd') }}", "calls 'open', which is undefined"},
  };
  for (const auto& each : refused) {
    EXPECT_ERROR(render(each.first), each.second) << each.first;
  }
}

/// A hostile template ends in an error after a bounded number of steps.
TEST(ChatTemplate, HostileTemplatesStayWithinTheirBudget) {
  const char* sources[] = {
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
      "{{ 'aaaaaaaaaaaaaaaa' * 100000000000 }}",
      "{{ [1] * 100000000000 }}",
      "{{ 10 ** 10 ** 10 }}",
      "{{ ' ' | center(99999999999) }}",
      "{{ 'x'.ljust(99999999999) }}",
      "{{ 'x'.zfill(99999999999) }}",
      "{{ '%99999999d' % 1 }}",
      "{{ '{:99999999}'.format(1) }}",
      "{{ 'x' | indent(99999999999, true) }}",
      "{% set ns = namespace(x='a') %}{% for i in range(99999) %}{% set ns.x = ns.x ~ ns.x %}{% "
      "endfor %}",
      "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor "
      "%}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% "
      "endfor %}"
      "{{ ns.x == ns.x }}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% "
      "endfor %}"
      "{{ ns.x | tojson }}",
      "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
      "{% set s = 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' %}{{ s | replace('', s) | replace('', "
      "s) | "
      "replace('', s) | replace('', s) | replace('', s) | replace('', s) }}",
      "{% set x = ['aaaaaaaaaaaaaaaa'] * 90000 %}{{ x | join(x | join) }}",
      "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      // Going over a long text costs as much as the text is long, whatever comes of it.
      "{% set s = 'é' * 1000000 %}{% for i in range(99999) %}{% set x = s | upper | length %}{% "
      "endfor %}",
      "{% set s = 'é' * 1000000 %}{% for i in range(99999) %}{% set x = s | length %}{% endfor %}",
      "{% set s = 'é' * 1000000 %}{% for i in range(99999) %}{% set x = s | tojson %}{% endfor %}",
      "{% set s = 'é' * 1000000 %}{% for i in range(99999) %}{% set x = s[999999] %}{% endfor %}",
      "{% set s = 'é' * 1000000 %}{% for i in range(99999) %}{% set x = s.lower() %}{% endfor %}",
      "{% set s = 'é' * 1000000 %}{% for i in range(99999) %}{% set x = s is upper %}{% endfor %}",
      "{% for i in range(99999) %}{{ "
      "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
      "aaaaaa'"
      "}}{% endfor %}",
  };
  for (const char* source : sources) {
    std::string error;
    const double seconds = test::cpu_seconds([&] { error = error_of(source); });
    EXPECT_FALSE(error.empty());
    EXPECT_LT(seconds, test::budget(10.0)) << source;  // milliseconds
  }
}

TEST(ChatTemplate, DeepNestingIsRefusedWhileParsing) {
  const auto repeated = [](const std::string& text, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) {
      all += text;
    }
    return all;
  };
  const char* deep = "an expression is nested deeper than 150 levels";
  const char* many = "has more than 200000 tokens";
  const char* blocks = "blocks are nested deeper than 60 levels";
  const std::pair<std::string, const char*> refused[] = {
      {"{{ " + repeated("(", 100000) + "1" + repeated(")", 100000) + " }}", many},
      {"{{ " + repeated("[", 100000) + " }}", "a tag is not closed"},
      {"{{ " + repeated("not ", 100000) + "1 }}", deep},
      {"{{ " + repeated("-", 100000) + "1 }}", deep},
      {"{{ 1" + repeated("+1", 50000) + " }}", deep},
      {"{{ 1" + repeated("|int", 50000) + " }}", deep},
      {"{{ x" + repeated(".x", 50000) + " }}", deep},
      {"{{ x" + repeated("()", 50000) + " }}", deep},
      {"{{ 1" + repeated(" if 1 else 1", 50000) + " }}", many},
      {repeated("{% if 1 %}", 20000), blocks},
      {repeated("{% for x in y %}", 20000), blocks},
      {std::string(size_t{2} << 20, 'a'), "has 2097152 bytes; at most 1048576 are read"},
  };
  for (const auto& each : refused) {
    EXPECT_ERROR(ChatTemplate::from_text(each.first), each.second) << each.first.substr(0, 40);
  }
}

TEST(ChatTemplate, LimitsAreOptions) {
  ChatOptions options;
  options.max_output = 10;
  EXPECT_EQ(render("0123456789", "[]", options), "0123456789");
  EXPECT_NE(error_of("0123456789{{ 1 }}", options).find("renders more than 10 bytes"),
            std::string::npos);
  options = {};
  options.max_steps = 50;
  EXPECT_NE(error_of("{% for i in range(99) %}{% endfor %}", options).find("more than 50 steps"),
            std::string::npos);
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

TEST(ChatTemplate, IsFoundInAFolder) {
  const test::TemporaryFolder folder;
  EXPECT_FALSE(ChatTemplate::find(folder.path()).has_value());
  EXPECT_ERROR(ChatTemplate::load(folder.path()), "has no chat template");
  write(folder / "llama2c.bin", "weights, and no template");
  EXPECT_FALSE(ChatTemplate::find(folder / "llama2c.bin").has_value());

  write(folder / "tokenizer_config.json",
        R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>",
            "chat_template": [{"name": "default", "template": "{{ bos_token }}d{{ eos_token }}"},
                              {"name": "tool_use", "template": "t{{ tools | length }}"}]})");
  const auto named = ChatTemplate::load(folder.path());
  EXPECT_EQ(named.render("[]"), "<s>d</s>");
  ChatOptions with_tools;
  with_tools.tools = "[{}]";
  EXPECT_EQ(named.render("[]", with_tools), "t1");
  EXPECT_TRUE(named.mentions("tools"));
  EXPECT_FALSE(named.mentions("enable_thinking"));

  write(folder / "chat_template.jinja", "{{ bos_token }}file\n");
  EXPECT_EQ(ChatTemplate::load(folder.path()).render("[]"), "<s>file");
  EXPECT_EQ(ChatTemplate::load(folder / "chat_template.jinja").render("[]"), "file");
  EXPECT_EQ(ChatTemplate::load(folder / "tokenizer_config.json").render("[]"), "<s>d</s>");
}

TEST(ChatTemplate, VariablesWinOverWhatIsThere) {
  ChatOptions options;
  options.variables =
      R"({"bos_token": "B", "add_generation_prompt": true, "enable_thinking": false})";
  const std::pair<std::string, std::string> tokens[] = {{"bos_token", "<s>"}};
  const auto chat = ChatTemplate::from_text(
      "{{ bos_token }}{{ add_generation_prompt }}{{ enable_thinking }}", tokens);
  EXPECT_EQ(chat.render("[]", options), "BTrueFalse");
}

}  // namespace
}  // namespace heed
