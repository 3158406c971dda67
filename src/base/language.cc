#include "base/language.h"

#include <atomic>
#include <unordered_map>

#include "base/messages.h"

namespace heed {
namespace {

std::atomic<bool> g_korean = false;

using Catalogue = std::unordered_map<std::string_view, std::string_view>;

const Catalogue& catalogue() {
  static const Catalogue all = [] {
    Catalogue texts;
    for (const std::span<const Message> part : korean_messages()) {
      for (const Message& message : part) {
        texts.emplace(message.english, message.korean);
      }
    }
    return texts;
  }();
  return all;
}

}  // namespace

void set_message_language(std::string_view language) { g_korean = language == "ko"; }

std::string_view message_language() { return g_korean ? "ko" : "en"; }

std::string_view korean_partner(std::string_view english) {
  const auto found = catalogue().find(english);
  return found == catalogue().end() ? std::string_view() : found->second;
}

std::string_view translate(std::string_view english) {
  if (!g_korean) {
    return english;
  }
  const std::string_view korean = korean_partner(english);
  return korean.empty() ? english : korean;
}

std::string format_message(std::string_view english, fmt::format_args args) {
  const std::string_view text = translate(english);
  return fmt::vformat(fmt::string_view(text.data(), text.size()), args);
}

}  // namespace heed
