#pragma once

#include <string_view>

namespace heed::app {

/// print_now() of text that a model wrote: byte for byte to a file or a pipe; a terminal gets
/// printable_lines(), so that no model steers it.
void print_generated(std::string_view text);

}  // namespace heed::app
