#include "io/json_problem.h"

#include "base/printable.h"

namespace heed {

std::string json_problem(std::string_view library_text) {
  // "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error while parsing
  // value - invalid literal; last read: 'tru}'"
  const size_t dash = library_text.find(" - ");
  if (dash != std::string_view::npos) {
    library_text.remove_prefix(dash + 3);
  } else if (const size_t bracket = library_text.find("] "); bracket != std::string_view::npos) {
    library_text.remove_prefix(bracket + 2);
  }
  return printable(library_text, 200);
}

}  // namespace heed
