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
  std::vector<SafetensorsEntry> entries;  ///< by their place in the file
  Metadata metadata;
};

/// Bytes of one element of a dtype of the format; 0 where it is not known.
uint64_t safetensors_element_bytes(std::string_view dtype);

/// Parses the JSON part and checks all of it: names and fields once, sizes that match shapes, and
/// tensors that fill `data_bytes` without overlap or hole. `file` is for messages.
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                           std::string_view file);

}  // namespace heed
