#pragma once

#include <cstddef>

namespace heed {

/// The longest line, or other text in one piece, that is worked on: encoding one takes up to about
/// 40 bytes of memory per byte.
constexpr size_t kLongestLine = size_t{64} << 20;

}  // namespace heed
