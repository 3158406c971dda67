#pragma once

#include <string>

namespace heed::app {

/// What a bug report needs to know of the machine and the build, as lines of text or as JSON.
std::string doctor_text();
std::string doctor_json();

}  // namespace heed::app
