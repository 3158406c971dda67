#pragma once

#include <string>
#include <string_view>

namespace heed {

std::string encode_base64(std::string_view bytes);
/// An error that names `file` where `text` is not base64.
std::string decode_base64(std::string_view text, std::string_view file);

}  // namespace heed
