#include "text/fields.h"

namespace heed::text {
namespace {

constexpr int kDeepest = 64;

void check_depth(std::string_view text, std::string_view file) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      i += c == '\\' ? 1 : 0;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      check_data(++depth <= kDeepest, file, "is nested deeper than {} levels (at byte {})",
                 kDeepest, i);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

}  // namespace

Json parse_json(std::string_view text, std::string_view file) {
  check_depth(text, file);
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    fail(ErrorKind::data, file, "is not JSON: {}", error.what());
  }
}

}  // namespace heed::text
