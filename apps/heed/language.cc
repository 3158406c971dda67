#include "heed/language.h"

#include <cstdlib>

#include "base/language.h"

namespace heed::app {
namespace {

/// The titles that a heat map has by itself, for the catalogue of messages.
[[maybe_unused]] constexpr const char* kTitles[] = {say("Query"), say("Key"), say("Weight")};

}  // namespace

std::string chosen_language(const std::string& option) {
  if (option == "en" || option == "ko") {  // what is wrong with others is said by the locale
    return option;
  }
  for (const char* name : {"LC_ALL", "LC_MESSAGES", "LANG"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') {
      return std::string_view(value).starts_with("ko") ? "ko" : "en";
    }
  }
  return "en";
}

void set_language(Heatmap& map, const std::string& language) {
  map.language = language;
  if (language == "ko") {
    map.row_title = korean_partner(map.row_title);
    map.column_title = korean_partner(map.column_title);
    map.value_title = korean_partner(map.value_title);
  }
}

}  // namespace heed::app
