#pragma once

#include <filesystem>

namespace heed::text {

/// Whether a folder holds one of the files that Tokenizer::load() reads.
bool has_tokenizer(const std::filesystem::path& folder);

}  // namespace heed::text
