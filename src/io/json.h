#pragma once

#include <nlohmann/json_fwd.hpp>

#include "heed/io.h"

namespace heed {

/// The parser's own value behind a handle, for what the getters do not cover.
const nlohmann::json& raw(const Json& value);
/// Takes a document that something else has made; `file` is its name in messages.
Json adopt_json(nlohmann::json&& value, const std::string& file);

}  // namespace heed
