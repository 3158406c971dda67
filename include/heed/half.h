#pragma once

#include <cstdint>

#include "heed/export.h"

namespace heed {

/// IEEE half and bfloat16 as stored; arithmetic happens in f32.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
HEED_API float to_float(Half value);
HEED_API float to_float(BFloat16 value);
HEED_API Half to_half(float value);          ///< nearest even
HEED_API BFloat16 to_bfloat16(float value);  ///< nearest even

}  // namespace heed
