#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace heed {

/// The sequence that a text starts with. An ill-formed one spans the longest prefix that could
/// still begin a sequence, at least one byte: decoders replace that span by one U+FFFD, as Unicode
/// recommends and Rust and Python do.
struct Utf8Start {
  size_t bytes;
  bool whole;  ///< well-formed and complete
};
/// `text` must not be empty.
Utf8Start utf8_start(std::string_view text);

/// Number of bytes of the well-formed UTF-8 sequence that `text` starts with, or 0 if it starts
/// with none. `text` must not be empty.
size_t utf8_sequence(std::string_view text);

bool is_valid_utf8(std::string_view text);

}  // namespace heed
