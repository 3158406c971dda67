#pragma once

#include <functional>

#include "heed/models.h"
#include "io/gguf.h"
#include "models/files.h"
#include "models/gguf/stored_types.h"

namespace heed::gguf {

/// A GGUF file as a Hugging Face model: a config.json made from its metadata, tensors by the
/// checkpoint's names.
ModelFiles model_files(const std::filesystem::path& path);

/// Adds a model's metadata and tensors in the types that `types` says. `progress` (may be empty) is
/// called after every tensor with the elements done so far and those of all.
void add_model(GgufWriter& writer, const Model& model, const StoredTypes& types,
               const std::function<void(int64_t done, int64_t total)>& progress = nullptr);

/// Rows of a table of positions in front of the first position: those up to pad_token_id.
int64_t rows_before_positions(const Json& config);

/// Rows of each head from halves (i, i + width/2) to pairs (2i, 2i + 1), or back. Any dtype.
Tensor rows_in_pairs(const Tensor& x, int64_t heads);
Tensor rows_in_halves(const Tensor& x, int64_t heads);

/// Rows of one projection from groups (the queries of a key-value head, its key, its value) to
/// blocks (all queries, all keys, all values), or back. Any dtype. `heads` are the query heads.
Tensor qkv_in_blocks(const Tensor& x, int64_t heads, int64_t head_dim);
Tensor qkv_in_groups(const Tensor& x, int64_t heads, int64_t head_dim);

}  // namespace heed::gguf
