#pragma once

#include <string_view>

namespace heed {

/// Prints one line for a person on stderr: printable(line) and its end.
void print_message(std::string_view line);

}  // namespace heed
