#pragma once

#include <string>
#include <string_view>

namespace heed::text {

/// Characters that Unicode 15 and 16 added, as members of a class: those of a general category
/// ("L", "Lu", "So"). PCRE2 of Debian 12 knows Unicode 14. Empty for other properties, and where
/// PCRE2 knows them itself.
std::string added_characters(std::string_view property);
/// The same for several.
std::string added_characters(std::initializer_list<std::string_view> properties);

}  // namespace heed::text
