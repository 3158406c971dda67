#pragma once

#include <string>
#include <string_view>

namespace heed {

/// Appends `text`, which is to be UTF-8, as a JSON string with its quotes.
void append_json_string(std::string& out, std::string_view text);

}  // namespace heed
