#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heed/io.h"

namespace heed {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< as written: "F32"
  Shape shape;
  uint64_t begin = 0;  ///< from the end of the header
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< in file order
  Metadata metadata;
};

/// Bytes of one element of a dtype of the format; 0 if it is unknown.
uint64_t safetensors_element_bytes(std::string_view dtype);

/// Parses and validates the JSON part: no duplicate names or fields, sizes that match shapes, and
/// tensors that fill `data_bytes` without overlap or gap. `file` is for messages.
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                           std::string_view file);

}  // namespace heed
