#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heed {

bool is_gzip(std::string_view bytes);
/// The content of a gzip file, refused beyond `limit` bytes; `name` is for messages.
std::string gunzip(std::string_view bytes, const std::string& name, uint64_t limit);

}  // namespace heed
