#include "heed/version.h"

#define HEED_QUOTED(x) #x
#define HEED_TEXT(x) HEED_QUOTED(x)

namespace heed {

std::string_view version() {
  return HEED_TEXT(HEED_VERSION_MAJOR) "." HEED_TEXT(HEED_VERSION_MINOR) "." HEED_TEXT(
      HEED_VERSION_PATCH);
}

}  // namespace heed
