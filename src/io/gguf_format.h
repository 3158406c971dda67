#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "heed/tensor.h"
#include "io/gguf.h"

namespace heed::gguf {

inline constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
inline constexpr uint32_t kVersion = 3;
inline constexpr uint64_t kDefaultAlignment = 32;
inline constexpr uint64_t kMaxNameBytes = 63;    // ggml keeps a name in 64 bytes
inline constexpr uint64_t kMaxKeyBytes = 65535;  // the format's own limit
inline constexpr int kMaxAxes = 4;               // ggml's

/// The path of file `number` (from 1) of a model in several files, from the path of any of them:
/// "m-00002-of-00003.gguf". Nothing where the name does not say so.
std::optional<std::filesystem::path> shard_path(const std::filesystem::path& path, int64_t number);

/// Bytes of a scalar; 0 for strings, arrays and unknown types.
uint64_t scalar_bytes(GgufType type);

/// ggml's number of a tensor type.
uint32_t tensor_type_of(DType type);
/// The tensor type of a number; throws with its ggml name where heed has no such type.
DType dtype_of(uint32_t type, const std::string& file, const std::string& tensor);

}  // namespace heed::gguf
