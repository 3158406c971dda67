#include "base/duration.h"

#include <cmath>
#include <cstdint>

#include "base/language.h"

namespace heed {

std::string duration_text(double seconds) {
  const int64_t whole = std::llround(seconds);
  return whole >= 3600 ? tell("{}h{:02}m", whole / 3600, whole % 3600 / 60)
         : whole >= 60 ? tell("{}m{:02}s", whole / 60, whole % 60)
                       : tell("{}s", whole);
}

}  // namespace heed
