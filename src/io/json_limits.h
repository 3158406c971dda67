#pragma once

#include <cstdint>
#include <string_view>

namespace heed {

/// What a JSON text may hold before a parser sees it, so that no input makes a parser use time,
/// stack or memory out of proportion.
struct JsonLimits {
  uint64_t depth = 64;
  uint64_t values = 8'000'000;         ///< of arrays and objects, all together
  uint64_t token = uint64_t{8} << 20;  ///< bytes of one string or number
};

/// One pass over the bytes; throws kind data with `file` in the message. Of syntax it
/// tests no more than that there is no zero byte.
void check_json_limits(std::string_view text, std::string_view file, const JsonLimits& limits = {});

}  // namespace heed
