#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "heed/tensor.h"

// Files of tensors. Whatever a file holds, reading it gives its tensors or throws Error of kind
// data that names the file and the field; see docs/formats.

namespace heed {

/// Tensors by name, in the names' byte order.
using TensorMap = std::map<std::string, Tensor, std::less<>>;
using Metadata = std::map<std::string, std::string, std::less<>>;

/// The tensors of a .safetensors file, borrowed from its mapping: nothing is read before its first
/// use, and the mapping lives as long as a tensor does. Only what lies misaligned is copied; I8,
/// I16 and U16 become i32, U32 becomes i64.
HEED_API TensorMap load_safetensors(const std::filesystem::path& path);
/// The strings under __metadata__.
HEED_API Metadata safetensors_metadata(const std::filesystem::path& path);
/// Replaces `path` in one step: a reader sees the whole old file or the whole new one. Tensors lie
/// as Hugging Face's own writer lays them.
HEED_API void save_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                               const Metadata& metadata = {{"format", "pt"}});
/// The weights of a Hugging Face folder: model.safetensors, or the shards that
/// model.safetensors.index.json names.
HEED_API TensorMap load_weights(const std::filesystem::path& folder);

/// NumPy's .npy: little-endian f2, f4, f8, i4, i8, u1 and b1, in either order.
HEED_API Tensor load_npy(const std::filesystem::path& path);
/// bf16 is written as f4, which NumPy knows.
HEED_API void save_npy(const std::filesystem::path& path, const Tensor& tensor);
/// MNIST's IDX format, plain or gzipped: u8, i32 or f32.
HEED_API Tensor load_idx(const std::filesystem::path& path);

/// Throws if a file that tensors are mapped from was truncated while in use, in which case nothing
/// computed from it can be trusted. Costs one system call per mapped file; call it when a result is
/// ready. See docs/adr/0009-truncated-files.md.
HEED_API void check_files_intact();

}  // namespace heed
