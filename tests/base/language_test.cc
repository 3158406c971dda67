// Two languages: every text that a person sees has a Korean partner, and messages are translated
// where they are shown.
#include "base/language.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "base/check.h"
#include "base/file.h"
#include "base/korean_particles.h"
#include "base/message_catalogue.h"
#include "heed/generate.h"
#include "heed/io.h"
#include "heed/text.h"
#include "support/data.h"

namespace heed {
namespace {

struct Korean {
  Korean() { set_message_language("ko"); }
  ~Korean() { set_message_language("en"); }
};

// Reading the source ------------------------------------------------------------------------------

struct Token {
  enum Kind { text, name, sign } kind;
  std::string value;
};

std::string unescaped(const std::string& source, size_t& at) {
  const char c = source[at++];
  if (c == 'u' || c == 'x') {  // enough to keep texts apart
    std::string code;
    while (at < source.size() && std::isxdigit(static_cast<unsigned char>(source[at])) != 0) {
      code += source[at++];
    }
    return "\\" + code;
  }
  return std::string(1, c == 'n' ? '\n' : c == 't' ? '\t' : c);
}

/// Names, signs and strings of C++; strings that follow each other are one.
std::vector<Token> tokens_of(const std::string& source) {
  std::vector<Token> tokens;
  for (size_t at = 0; at < source.size();) {
    const char c = source[at];
    if (source.compare(at, 2, "//") == 0) {
      at = std::min(source.find('\n', at), source.size());
    } else if (source.compare(at, 2, "R\"") == 0) {
      const size_t open = source.find('(', at);
      const std::string end = ")" + source.substr(at + 2, open - at - 2) + "\"";
      const size_t close = source.find(end, open);
      tokens.push_back({Token::text, source.substr(open + 1, close - open - 1)});
      at = close + end.size();
    } else if (c == '"') {
      std::string text;
      for (++at; source[at] != '"';) {
        if (source[at] == '\\') {
          text += unescaped(source, ++at);
        } else {
          text += source[at++];
        }
      }
      ++at;
      if (!tokens.empty() && tokens.back().kind == Token::text) {
        tokens.back().value += text;
      } else {
        tokens.push_back({Token::text, text});
      }
    } else if (c == '\'') {
      const size_t end = source.find('\'', at + (source[at + 1] == '\\' ? 3 : 2));
      at = end - at <= 6 ? end + 1 : at + 1;  // else a separator of digits
      tokens.push_back({Token::sign, "'"});
    } else if (std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_') {
      const size_t begin = at;
      while (at < source.size() &&
             (std::isalnum(static_cast<unsigned char>(source[at])) != 0 || source[at] == '_')) {
        ++at;
      }
      tokens.push_back({Token::name, source.substr(begin, at - begin)});
    } else {
      if (std::isspace(static_cast<unsigned char>(c)) == 0) {
        tokens.push_back({Token::sign, std::string(1, c)});
      }
      ++at;
    }
  }
  return tokens;
}

/// The arguments of the call whose bracket stands at `open`.
std::vector<std::vector<Token>> arguments_of(const std::vector<Token>& tokens, size_t open) {
  std::vector<std::vector<Token>> arguments(1);
  int depth = 0;
  for (size_t i = open; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    const bool sign = token.kind == Token::sign;
    if (sign && token.value.find_first_of("([{") == 0) {
      if (++depth == 1) {
        continue;
      }
    } else if (sign && token.value.find_first_of(")]}") == 0) {
      if (--depth == 0) {
        return arguments;
      }
    } else if (sign && token.value == "," && depth == 1) {
      arguments.emplace_back();
      continue;
    }
    arguments.back().push_back(token);
  }
  return arguments;
}

/// Where the text of a call stands among its arguments; -1: the call says nothing to a person.
int place_of_text(const std::string& name, bool command_line) {
  static const std::map<std::string, int> kAnywhere = {
      {"tell", 0}, {"say", 0},   {"check", 2},  {"check_data", 2},
      {"fail", 2}, {"Error", 1}, {"Failure", 2}};  // of the explorer, which shows them on its page
  if (const auto found = kAnywhere.find(name); found != kAnywhere.end()) {
    return found->second;
  }
  return !command_line ? -1 : name == "add" ? 2 : name == "group" ? 0 : -1;
}

/// Calls whose texts are phrases inside a message: "expected {}", "{} is out of range; {}", and
/// what is wrong with a chat template, a grammar or a schema.
bool takes_phrases(const std::string& name, const std::string& file) {
  static const std::set<std::string> kNames = {"wanted", "in_range", "report_error", "on_warning"};
  static const std::set<std::string> kReasons = {"raise", "refuse", "refuse_if", "refuse_schema",
                                                 "unexpected"};
  return kNames.contains(name) || (kReasons.contains(name) && (file.starts_with("src/generate/") ||
                                                               file.starts_with("src/text/jinja")));
}

/// Whether a call says what is wrong with a field of a JSON file, whose name goes in front of it.
bool names_a_field(const std::string& name, const std::string& file) {
  return name == "refuse" && !file.starts_with("src/text/jinja") &&
         (file.starts_with("src/text/") || file == "src/io/json.cc" ||
          file == "src/pipelines/json_options.cc");
}

bool has_letters(const std::string& text) {
  const std::string plain = std::regex_replace(text, std::regex("\\{[^}]*\\}"), "");
  return std::any_of(plain.begin(), plain.end(),
                     [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; });
}

/// Every text that the source hands to a person, with the file it stands in.
std::map<std::string, std::string> texts_of_source(const std::filesystem::path& root) {
  std::map<std::string, std::string> found;
  for (const char* part : {"src", "apps"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / part)) {
      const std::string ending = entry.path().extension();
      if (ending != ".cc" && ending != ".h") {
        continue;
      }
      const std::string file = std::filesystem::relative(entry.path(), root);
      const std::vector<Token> tokens = tokens_of(read_file(entry.path()));
      const bool command_line = file.starts_with("apps");
      const auto take = [&](const std::string& text) {
        if (has_letters(text)) {
          found.emplace(text, file);
        }
      };
      for (size_t i = 0; i + 1 < tokens.size(); ++i) {
        if (tokens[i].kind != Token::name) {
          continue;
        }
        const int place = place_of_text(tokens[i].value, command_line);
        if (place >= 0 && tokens[i + 1].value == "(") {
          const auto arguments = arguments_of(tokens, i + 1);
          const auto index = static_cast<size_t>(place);
          if (index < arguments.size() && !arguments[index].empty()) {
            // "…" alone, or what fmt::format() makes of it
            const bool formatted = tokens[i].value == "Failure" && arguments[index].size() > 5 &&
                                   arguments[index][3].value == "format";
            const Token& text = arguments[index][formatted ? 5 : 0];
            if (text.kind == Token::text && (formatted || arguments[index].size() == 1)) {
              take(text.value);
            }
          }
        }
        const bool field = names_a_field(tokens[i].value, file);
        if ((field || takes_phrases(tokens[i].value, file)) && tokens[i + 1].value == "(") {
          for (const auto& argument : arguments_of(tokens, i + 1)) {
            for (const Token& token : argument) {
              if (token.kind == Token::text && token.value.find(' ', 1) != std::string::npos) {
                take((field ? "{} " : "") + token.value);
              }
            }
          }
        }
        if (command_line && tokens[i].value == "Registration") {
          int texts = 0;
          for (size_t j = i; j < std::min(i + 14, tokens.size()) && texts < 2; ++j) {
            if (tokens[j].kind == Token::text && ++texts == 2) {
              take(tokens[j].value);  // the command's summary
            }
          }
        }
      }
    }
  }
  return found;
}

/// The arguments that a format text takes: the number and the form of each, in order of the number.
std::vector<std::pair<int, std::string>> placeholders(std::string text) {
  for (const char* escaped : {"{{", "}}"}) {
    for (size_t at = text.find(escaped); at != std::string::npos; at = text.find(escaped, at)) {
      text.erase(at, 2);
    }
  }
  std::vector<std::pair<int, std::string>> result;
  const std::regex one("\\{([0-9]*)(:[^}]*)?\\}");
  for (std::sregex_iterator it(text.begin(), text.end(), one), end; it != end; ++it) {
    const std::string number = (*it)[1];
    result.emplace_back(number.empty() ? static_cast<int>(result.size()) : std::stoi(number),
                        (*it)[2]);
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

TEST(Language, EveryTextHasItsPartner) {
  const std::filesystem::path root = test::source_folder();
  const auto texts = texts_of_source(root);
  EXPECT_GT(texts.size(), 1000U);  // that the source was understood
  std::string missing;
  for (const auto& [text, file] : texts) {
    if (korean_partner(text).empty()) {
      missing += file + ": " + text + "\n";
    }
  }
  EXPECT_EQ(missing, "") << "add them to src/base/messages/ko.po";
}

TEST(Language, PartnersTakeTheSameArguments) {
  for (const auto& [english, korean] : korean_catalogue()) {
    EXPECT_EQ(placeholders(english), placeholders(korean)) << english << "\n" << korean;
    EXPECT_FALSE(korean.empty()) << english;
    EXPECT_EQ(english.ends_with("\n"), korean.ends_with("\n")) << english;
  }
}

TEST(Language, OneWordForOneThing) {
  // The same English words have the same Korean ones everywhere; tools/retired_words.txt lists the
  // words that are not to be written.
  const std::pair<const char*, const char*> kTerms[] = {
      {"Query", "쿼리"}, {"Key", "키"}, {"cross", "크로스"}, {"head", "헤드"}, {"layer", "층"}};
  for (const auto& [english, korean] : kTerms) {
    EXPECT_EQ(korean_partner(english), korean);
  }
  for (const auto& [english, korean] : korean_catalogue()) {
    EXPECT_EQ(korean.find("레이어"), std::string::npos) << korean << ": write 층";
    EXPECT_EQ(korean.find("토크나이져"), std::string::npos) << korean << ": write 토크나이저";
  }
}

TEST(Language, TellsInTheLanguageOfMessages) {
  EXPECT_EQ(tell("{} has no {}: they begin fresh", "a", "b"), "a has no b: they begin fresh");
  const Korean korean;
  EXPECT_EQ(message_language(), "ko");
  EXPECT_EQ(translate("Query"), "쿼리");
  EXPECT_EQ(translate("a text that nobody wrote"), "a text that nobody wrote");
  EXPECT_EQ(tell("{} of {} hardware threads", 2, 8), "하드웨어 스레드 8개 중 2개");
}

TEST(Language, TranslatesMessagesOfErrors) {
  std::string message;
  try {
    check_data(false, "model.gguf", "has GGUF version {}; 2 and 3 are read", 7);
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_EQ(translate_message(message), message);
  const Korean korean;
  EXPECT_EQ(message, "model.gguf: has GGUF version 7; 2 and 3 are read");  // for programs, as ever
  EXPECT_EQ(translate_message(message), "model.gguf: GGUF 버전이 7입니다. 2와 3을 읽습니다");
  EXPECT_EQ(translate_message("data: run.tsv: has no examples"), "data: run.tsv: 예제가 없습니다");
  EXPECT_EQ(translate_message("nothing that heed would say"), "nothing that heed would say");
  EXPECT_EQ(translate_message(""), "");
}

TEST(Language, TranslatesForAPageWhateverTheLanguageOfMessages) {
  EXPECT_EQ(korean_message("the text has 600 tokens; the model takes 512"),
            "글의 토큰이 600개입니다. 이 모델은 512개까지 읽습니다");
  EXPECT_EQ(message_language(), "en");
}

TEST(Language, LeavesAUsersOwnWordsAlone) {
  const Korean korean;
  EXPECT_EQ(translate_message("--points-at: the text has no 'the prompt is empty'"),
            "--points-at: 텍스트에 'the prompt is empty'이(가) 없습니다");
}

TEST(Language, TranslatesMessagesInsideMessages) {
  const Korean korean;
  EXPECT_EQ(translate_message("input 3: the prompt is empty"), "입력 3: 프롬프트가 비었습니다");
}

TEST(Language, TranslatesPhrasesInsideMessages) {
  const Korean korean;
  EXPECT_EQ(translate_message("lm: `translation` needs an encoder-decoder model; this folder holds "
                              "a decoder (gpt2)."),
            "lm: `translation`에는 인코더-디코더 모델이 필요합니다. 이 폴더의 모델은 "
            "디코더(gpt2)입니다.");
  EXPECT_EQ(translate_message("a.txt: cannot be opened: Permission denied"),
            "a.txt: 열 수 없습니다: 권한이 없습니다");
  EXPECT_EQ(translate_message("a.txt: cannot be opened: No such file or directory"),
            "a.txt: 열 수 없습니다: 그런 파일이나 디렉터리가 없습니다");
  EXPECT_EQ(translate_message("config.json: n_embd is \"x\"; expected a whole number from 1 to 9"),
            "config.json: n_embd의 값이 \"x\"입니다. 1에서 9까지의 정수가 필요합니다");
}

TEST(Language, TranslatesWhatIsWrongWithTemplatesGrammarsAndSchemas) {
  const Korean korean;
  const auto message_of = [](auto&& make) -> std::string {
    try {
      make();
    } catch (const Error& error) {
      return translate_message(error.what());
    }
    return "no error";
  };
  EXPECT_EQ(message_of([] { ChatTemplate::from_text("{{ x }}\n{% if %}", {}, "c.jinja"); }),
            "c.jinja: 채팅 템플릿: 2번째 줄: 식 자리에 블록의 끝이 있습니다");
  EXPECT_EQ(message_of([] { ChatTemplate::from_text("{{ 1 + }}", {}, "c.jinja"); }),
            "c.jinja: 채팅 템플릿: 1번째 줄: 식 자리에 태그의 끝이 있습니다");
  EXPECT_EQ(
      message_of([] { ChatTemplate::from_text("\n{{ 1 / 0 }}", {}, "c.jinja").render("[]"); }),
      "c.jinja: 채팅 템플릿, 2번째 줄: 0으로 나눌 수 없습니다");
  EXPECT_EQ(message_of([] { Grammar::from_gbnf("root ::= \"a\" other", "g.gbnf"); }),
            "g.gbnf: 1번째 줄: 규칙 'other'이(가) 없습니다");
  EXPECT_EQ(message_of([] { Grammar::from_json_schema(R"({"type": "text"})", "s.json"); }),
            "s.json: /type: 자료형 'text'이(가) 없습니다");
  EXPECT_EQ(
      message_of([] { Json::parse(R"({"type": 1})", "t.json").at("type").refuse("is empty"); }),
      "t.json: type이(가) 비었습니다");
  EXPECT_EQ(message_of([] { Grammar::from_json_schema("[]", "s.json"); }),
            "s.json: 스키마: 스키마는 객체, true, false 가운데 하나여야 합니다");
}

TEST(Language, ChoosesParticlesByTheSoundBeforeThem) {
  EXPECT_EQ(with_particles("3은(는) 1이(가) 2을(를) 7(으)로 6(으)로 4와(과)"),
            "3은 1이 2를 7로 6으로 4와");
  EXPECT_EQ(with_particles("'말'(으)로 '글'은(는) '소리'이(가) (값)을(를)"),
            "'말'로 '글'은 '소리'가 (값)을");
  EXPECT_EQ(with_particles("'hot'은(는) x(으)로"), "'hot'은(는) x(으)로");  // who knows
  EXPECT_EQ(with_particles("은(는)"), "은(는)");
}

TEST(Catalogue, ReadsGettextsForm) {
  const MessageCatalogue read = parse_po(
      "# a comment\nmsgid \"\"\nmsgstr \"header\"\n\nmsgid \"a \"\n\"b\\n\"\nmsgstr \"가 "
      "\\\"나\\\"\"\n");
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read.at("a b\n"), "가 \"나\"");
  EXPECT_THROW(parse_po("msgid a\n"), std::invalid_argument);
  EXPECT_THROW(parse_po("msgid \"a\"\nmsgstr \"b\"\nmsgid \"a\"\nmsgstr \"c\"\n"),
               std::invalid_argument);
}

}  // namespace
}  // namespace heed
