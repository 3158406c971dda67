#include "heed/print_generated.h"

#include <unistd.h>

#include <string>

#include "base/printable.h"
#include "heed/open.h"

namespace heed::app {

void print_generated(std::string_view text) {
  static const bool terminal = isatty(STDOUT_FILENO) != 0;
  print_now(terminal ? printable_lines(text) : std::string(text));
}

}  // namespace heed::app
