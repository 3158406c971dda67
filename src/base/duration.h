#pragma once

#include <string>

namespace heed {

/// A duration as a person reads it, in the language of messages: "20s", "3m20s", "2h05m".
std::string duration_text(double seconds);

}  // namespace heed
