#pragma once

#include <string>

#include "models/decoder.h"

namespace heed {

/// ALiBi has no limit of its own: the longest sequence that a cache is made for.
constexpr int64_t kNoLimit = int64_t{1} << 17;

/// Names of parameters that BLOOM and Falcon share.
void use_bloom_names(DecoderNames& names);
/// What their descriptions have in common.
ModelSpec bloom_like_spec(const std::string& type, const std::string& family);

}  // namespace heed
