#pragma once

#include <filesystem>

#include "heed/retrieval.h"
#include "retrieval/embedder.h"
#include "retrieval/index_store.h"

namespace heed {

/// What a new index is made with. Throws kind usage where the options make no sense together.
IndexSettings new_settings(const IndexOptions& options, const Embedder& embedder);

/// Throws kind usage where an option was given and the index has been made with another value.
void check_settings(const IndexOptions& options, const IndexSettings& stored,
                    const std::filesystem::path& path);

}  // namespace heed
