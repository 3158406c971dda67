#pragma once

#include "heed/runtime.h"

namespace heed {

/// Throws `Stopped` where the innermost StopScope of this thread was asked to stop. For long loops
/// that are no parallel ones (reading a recording, decoding images): call it now and then.
HEED_API void throw_if_stopped();

}  // namespace heed
