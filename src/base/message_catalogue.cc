#include "base/message_catalogue.h"

#include <fmt/format.h>

#include <stdexcept>

#include "messages.h"

namespace heed {
namespace {

[[noreturn]] void broken(int line, const char* what) {
  throw std::invalid_argument(fmt::format("ko.po:{}: {}", line, what));
}

/// The string between the quotes of a line, unescaped.
std::string unquoted(std::string_view text, int line) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') {
    broken(line, "a string in double quotes is expected");
  }
  std::string result;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] != '\\') {
      result += text[i];
      continue;
    }
    const char escaped = text[++i];
    if (i + 1 >= text.size()) {
      broken(line, "the string does not end");
    }
    result += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
  }
  return result;
}

}  // namespace

MessageCatalogue parse_po(std::string_view text) {
  constexpr std::string_view kId = "msgid ", kText = "msgstr ";
  MessageCatalogue catalogue;
  std::string id, message;
  bool in_message = false;
  const auto finish = [&](int line) {
    if (!id.empty() && !catalogue.emplace(id, message).second) {
      broken(line, "the text stands there twice");
    }
    id.clear();
    message.clear();
    in_message = false;
  };
  int number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.empty() || line.front() == '#') {
      continue;
    }
    if (line.starts_with(kId)) {
      finish(number);
      id = unquoted(line.substr(kId.size()), number);
    } else if (line.starts_with(kText)) {
      in_message = true;
      message = unquoted(line.substr(kText.size()), number);
    } else {
      (in_message ? message : id) += unquoted(line, number);
    }
  }
  finish(number);
  return catalogue;
}

const MessageCatalogue& korean_catalogue() {
  static const MessageCatalogue all =
      parse_po({reinterpret_cast<const char*>(kMessagesKo), sizeof kMessagesKo});
  return all;
}

}  // namespace heed
