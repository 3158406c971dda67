#include "base/printable.h"

#include <cstdlib>

#include "base/utf8.h"
#include "fuzz/target.h"

/// Whatever goes in, a printable line comes out.
HEED_FUZZ_TARGET(printable) {
  using namespace heed;
  const std::string line = printable(input);
  bool good = is_valid_utf8(line) && printable(line) == line;
  for (const char c : line) {
    good = good && static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
  }
  if (!good || (printable_lines(input).find('\x1b') != std::string::npos)) {
    std::abort();
  }
}
