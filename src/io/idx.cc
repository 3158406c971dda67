#include <cstring>

#include "base/check.h"
#include "base/file.h"
#include "heed/io.h"
#include "io/gzip.h"

namespace heed {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{4} << 30;

uint32_t big_endian(std::string_view text, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value = value << 8 | static_cast<uint8_t>(text[at + i]);
  }
  return value;
}

DType dtype_of(uint8_t code, const std::string& file) {
  switch (code) {
    case 0x08:
      return DType::u8;
    case 0x0c:
      return DType::i32;
    case 0x0d:
      return DType::f32;
    default:
      fail(ErrorKind::data, file, "has IDX type {:#04x}; u8, i32 and f32 are supported", code);
  }
}

Tensor parse_idx(std::string_view text, const std::string& file) {
  check_data(text.size() >= 4 && text[0] == 0 && text[1] == 0, file,
             "is not an IDX file: it does not start with two zero bytes");
  const DType type = dtype_of(static_cast<uint8_t>(text[2]), file);
  const auto axes = static_cast<size_t>(static_cast<uint8_t>(text[3]));
  check_data(axes >= 1 && axes <= Shape::kMaxRank && text.size() >= 4 + 4 * axes, file,
             "declares {} dimensions, which is too many or more than the file holds", axes);
  Shape shape;
  uint64_t elements = 1;
  for (size_t i = 0; i < axes; ++i) {
    const uint32_t size = big_endian(text, 4 + 4 * i);
    check_data(
        !__builtin_mul_overflow(elements, uint64_t{size}, &elements) && elements <= kMaxBytes, file,
        "declares more than {} elements", kMaxBytes);
    shape.push_back(size);
  }
  const std::string_view data = text.substr(4 + 4 * axes);
  const auto bytes = static_cast<uint64_t>(bytes_of(type, static_cast<int64_t>(elements)));
  check_data(data.size() == bytes, file, "shape {} takes {} bytes, the file holds {}", shape, bytes,
             data.size());
  Tensor result = Tensor::empty(shape, type);
  if (type == DType::u8) {
    std::memcpy(result.raw(), data.data(), bytes);
  } else {
    auto* words = static_cast<uint32_t*>(result.raw());
    for (uint64_t i = 0; i < elements; ++i) {
      words[i] = big_endian(data, 4 * i);
    }
  }
  return result;
}

}  // namespace

Tensor load_idx(const std::filesystem::path& path) {
  const MappedFile mapping(path);
  const std::string& file = path.native();
  Tensor result = is_gzip(mapping.text()) ? parse_idx(gunzip(mapping.text(), file, kMaxBytes), file)
                                          : parse_idx(mapping.text(), file);
  mapping.check_not_truncated();
  return result;
}

}  // namespace heed
