#pragma once

#include <filesystem>

namespace heed {

/// `name` itself where there is such a file or folder; else the snapshot of a model of that name
/// ("openai-community/gpt2", "gpt2@v1.0") in the local Hugging Face cache. Throws `Error` with the
/// command that downloads it where it is in neither place.
std::filesystem::path find_in_hub_cache(const std::filesystem::path& name);

}  // namespace heed
