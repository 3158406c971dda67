#include "io/toml.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/check.h"
#include "base/file.h"
#include "base/utf8.h"
#include "io/json_writer.h"

namespace heed {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{4} << 20;  // a configuration, not data

nlohmann::json converted(const toml::node& node, const std::string& file) {
  switch (node.type()) {
    case toml::node_type::table: {
      nlohmann::json object = nlohmann::json::object();
      for (const auto& [key, value] : *node.as_table()) {
        object[std::string(key.str())] = converted(value, file);
      }
      return object;
    }
    case toml::node_type::array: {
      nlohmann::json array = nlohmann::json::array();
      for (const toml::node& value : *node.as_array()) {
        array.push_back(converted(value, file));
      }
      return array;
    }
    case toml::node_type::string:
      return node.as_string()->get();
    case toml::node_type::integer:
      return node.as_integer()->get();
    case toml::node_type::floating_point:
      return node.as_floating_point()->get();
    case toml::node_type::boolean:
      return node.as_boolean()->get();
    default:
      fail(ErrorKind::data, file, "line {}: dates and times are not supported",
           node.source().begin.line);
  }
}

bool is_bare_key(std::string_view name) {
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-';
    if (!plain) {
      return false;
    }
  }
  return !name.empty();
}

std::string quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text);  // TOML's basic strings have JSON's escapes
  return out;
}

/// Dotted keys and headers are tables within tables, which the parser follows and frees as deep as
/// they are long.
void check_key_depth(std::string_view text, const std::string& file) {
  constexpr int kMostParts = 64;
  int64_t line = 1;
  int dots = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const std::string_view three = text.substr(i, 3);
      const bool multiline = three == "\"\"\"" || three == "'''";
      const std::string_view mark = multiline ? three : text.substr(i, 1);
      for (i += mark.size(); i < text.size() && text.substr(i, mark.size()) != mark; ++i) {
        i += text[i] == '\\' && c == '"' ? 1 : 0;
        if (i < text.size() && text[i] == '\n') {
          ++line;
          if (!multiline) {
            break;  // the parser says what is wrong with it
          }
        }
      }
      i += mark.size() - 1;
    } else if (c == '#') {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == '.') {
      check_data(++dots < kMostParts, file, "line {}: a key has more than {} parts", line,
                 kMostParts);
    } else if (c == '\n' || c == '=' || c == ',' || c == '[' || c == '{') {
      dots = 0;
      line += c == '\n' ? 1 : 0;
    }
  }
}

}  // namespace

Json parse_toml(std::string_view text, const std::string& file) {
  check_data(text.size() <= kMaxBytes, file, "has {} bytes; the limit is {}", text.size(),
             kMaxBytes);
  check_key_depth(text, file);
  try {
    const toml::table table = toml::parse(text, file);
    return adopt_json(converted(table, file), file);
  } catch (const toml::parse_error& error) {
    const std::string reason = quote(error.description(), 200);
    fail(ErrorKind::data, file, "line {}, column {}: {}", error.source().begin.line,
         error.source().begin.column, reason.substr(1, reason.size() - 2));
  }
}

Json read_toml(const std::filesystem::path& path) {
  return parse_toml(read_file(path, kMaxBytes), path.native());
}

TomlWriter& TomlWriter::comment(std::string_view text) {
  text_ += fmt::format("# {}\n", text);
  return *this;
}

TomlWriter& TomlWriter::section(std::string_view name) {
  text_ += fmt::format("{}[{}]\n", text_.empty() ? "" : "\n",
                       is_bare_key(name) ? std::string(name) : quoted(name));
  return *this;
}

TomlWriter& TomlWriter::line(std::string_view name, std::string_view value) {
  text_ += fmt::format("{} = {}\n", is_bare_key(name) ? std::string(name) : quoted(name), value);
  return *this;
}

TomlWriter& TomlWriter::field(std::string_view name, std::string_view text) {
  return line(name, quoted(text));
}

TomlWriter& TomlWriter::field(std::string_view name, const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) {
    list += (list.empty() ? "" : ", ") + quoted(std::string_view(text));
  }
  return line(name, "[" + list + "]");
}

TomlWriter& TomlWriter::field(std::string_view name, bool flag) {
  return line(name, flag ? "true" : "false");
}

TomlWriter& TomlWriter::field(std::string_view name, double number) {
  if (std::isfinite(number)) {
    std::string digits;
    append_json_number(digits, number);
    return line(name, digits);
  }
  return line(name, std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf");
}

}  // namespace heed
