// What the lessons' programs share: their texts in English and Korean.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "heed/picture.h"

namespace lesson {

/// Whether the reader's language is Korean: by HEED_LANG, else by the locale.
inline bool korean() {
  for (const char* name : {"HEED_LANG", "LC_ALL", "LC_MESSAGES", "LANG"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') {
      return std::string_view(value).starts_with("ko");
    }
  }
  return false;
}

/// The text in the reader's language; both are formats with the same arguments.
__attribute__((format_arg(1), format_arg(2))) inline const char* say(const char* english,
                                                                     const char* in_korean) {
  return korean() ? in_korean : english;
}

inline const char* yes_or_no(bool yes) { return yes ? say("yes", "예") : say("no", "아니요"); }

inline std::string head(int64_t index) { return say("Head ", "헤드 ") + std::to_string(index); }

/// Filled with blanks up to so many columns of a terminal, where a Hangul syllable takes two.
inline std::string pad(const std::string& text, int columns) {
  const int missing = columns - heed::display_width(text);
  return missing > 0 ? text + std::string(static_cast<size_t>(missing), ' ') : text;
}

/// A heat map whose own words are in the reader's language.
inline heed::Heatmap heatmap(const std::string& title) {
  heed::Heatmap map;
  map.title = title;
  if (korean()) {
    map.language = "ko";
    map.row_title = "쿼리";
    map.column_title = "키";
    map.value_title = "가중치";
  }
  return map;
}

/// A new folder for what a program writes, gone at its end: several people may share a machine.
class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "heed-lesson-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw std::system_error(errno, std::generic_category(), name);
    }
    path_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace lesson
