#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "heed/runtime.h"

namespace heed {

/// A name from an untrusted file for use in a message: in single quotes, cut after `limit` bytes,
/// control characters and bad UTF-8 escaped as \xNN.
HEED_API std::string quote(std::string_view name, size_t limit = 80);

/// What `text` (not empty) starts with: a whole UTF-8 sequence, or as much as could be the
/// beginning of one (at least a byte). One U+FFFD stands for that, as Unicode recommends and Rust
/// and Python do.
struct Utf8Start {
  size_t bytes;
  bool whole;
};
Utf8Start utf8_start(std::string_view text);

/// Bytes of the well-formed UTF-8 sequence that `text` (not empty) starts with; 0 where there is
/// none.
size_t utf8_sequence(std::string_view text);

bool is_valid_utf8(std::string_view text);

}  // namespace heed
