#pragma once

#include <string>
#include <string_view>

namespace heed {

/// Rewrites an error message of the JSON library in plain words, without the library's prefix:
/// "unexpected end of input; expected '}'".
std::string json_problem(std::string_view library_text);

}  // namespace heed
