#pragma once

#include <string>

#include "heed/picture.h"

namespace heed::app {

/// "en" or "ko": as the option --lang says, else by the locale.
std::string chosen_language(const std::string& option);

/// The words of an attention map: its axes, its colour bar, its description.
void set_language(Heatmap& map, const std::string& language);

}  // namespace heed::app
