#include "base/print_message.h"

#include <cstdio>

#include "base/printable.h"

namespace heed {

void print_message(std::string_view line) { std::fprintf(stderr, "%s\n", printable(line).c_str()); }

}  // namespace heed
