#pragma once

#include <cstdint>
#include <string_view>

namespace heed {

/// Limits checked before a JSON text is parsed, so that no input makes the parser use
/// disproportionate time, stack or memory.
struct JsonLimits {
  uint64_t depth = 64;
  uint64_t values = 8'000'000;         ///< of all arrays and objects together
  uint64_t token = uint64_t{8} << 20;  ///< bytes of one string or number
};

/// Scans the bytes once; throws kind data with `file` in the message. Checks no syntax except that
/// there is no zero byte.
void check_json_limits(std::string_view text, std::string_view file, const JsonLimits& limits = {});

}  // namespace heed
