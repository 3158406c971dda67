#pragma once

#include <concepts>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace heed {

/// A TOML text as a Json value: tables become objects. Dates and times are refused. Errors have
/// line and column.
Json parse_toml(std::string_view text, const std::string& file);
Json read_toml(const std::filesystem::path& path);

/// Writes TOML in the order of the calls, with comments.
class TomlWriter {
 public:
  TomlWriter& comment(std::string_view text);
  TomlWriter& section(std::string_view name);
  TomlWriter& field(std::string_view name, std::string_view text);
  TomlWriter& field(std::string_view name, const char* text) {
    return field(name, std::string_view(text));
  }
  TomlWriter& field(std::string_view name, const std::vector<std::string>& texts);
  TomlWriter& field(std::string_view name, bool flag);
  TomlWriter& field(std::string_view name, double number);
  template <std::integral T>
  requires(!std::same_as<T, bool>) TomlWriter& field(std::string_view name, T number) {
    return line(name, std::to_string(number));
  }

  const std::string& text() const { return text_; }

 private:
  TomlWriter& line(std::string_view name, std::string_view value);

  std::string text_;
};

}  // namespace heed
