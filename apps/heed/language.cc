#include "heed/language.h"

#include <cstdlib>

namespace heed::app {

std::string chosen_language(const std::string& option) {
  if (!option.empty()) {
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
    map.row_title = "쿼리";
    map.column_title = "키";
    map.value_title = "가중치";
  }
}

}  // namespace heed::app
