#pragma once

#include <string_view>

#include "heed/io.h"

namespace heed {

/// One pass over the bytes; throws kind data with `file` in the message. Of syntax it
/// tests no more than that there is no zero byte.
void check_json_limits(std::string_view text, std::string_view file, const JsonLimits& limits = {});

}  // namespace heed
