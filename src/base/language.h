#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

// The language of everything a person reads: errors, help, progress, results. Texts are written in
// English where they are used; one catalogue (messages/ko.po) holds their Korean partners, and
// tests/base/language_test.cc finds every text that has none.

namespace heed {

/// Chooses the language of messages: "en" or "ko". Meant to be called once, before threads start.
void set_message_language(std::string_view language);
/// "en" or "ko".
std::string_view message_language();

/// The text in the language of messages; the English text itself where it has no partner.
std::string_view translate(std::string_view english);
/// The Korean partner of an English text; empty where the catalogue has none.
std::string_view korean_partner(std::string_view english);

/// The text in a given language, "en" or "ko", whatever the language of messages is.
std::string_view in_language(std::string_view language, std::string_view english);

/// A message that was formatted in English, such as that of an `Error`, in the language of
/// messages: the text of the catalogue that it was made from is found by its fixed parts. "FILE: "
/// and the like stay in front of it. Messages of errors are therefore the same for programs in
/// every language, and only what is shown to a person is translated.
std::string translate_message(const std::string& message);

/// Formats a text of the catalogue. A Korean text may take its arguments in another order: "{1}
/// {0}".
std::string format_message(std::string_view english, fmt::format_args args);

/// The one way to say something to a person: `tell("{} of {} tokens", done, all)`.
template <class... Args>
std::string tell(fmt::format_string<Args...> english, Args&&... args) {
  const fmt::string_view text = english;
  return format_message({text.data(), text.size()}, fmt::make_format_args(args...));
}

/// Marks a text that is translated where it is shown, so that the test finds it:
/// `table.add("--seed", &seed, say("Seed of the weights"))`.
constexpr const char* say(const char* english) { return english; }

}  // namespace heed
