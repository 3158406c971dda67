#pragma once

#include <string_view>

#include "heed/runtime.h"

// The version of these headers; CMakeLists.txt reads the project's version from here. What a change
// of each number means is in docs/versioning.md.
#define HEED_VERSION_MAJOR 0
#define HEED_VERSION_MINOR 1
#define HEED_VERSION_PATCH 0

namespace heed {

/// The version of the library that is linked, such as "0.1.0". Compare it with the macros to notice
/// a library that does not fit the headers.
HEED_API std::string_view version();

}  // namespace heed
