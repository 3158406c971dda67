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

struct IdxHeader {
  DType type = DType::u8;
  Shape shape;
  uint64_t bytes = 0;       // of the header
  uint64_t data_bytes = 0;  // that must follow it
};

constexpr size_t kLongestHeader = 4 + 4 * Shape::kMaxRank;

/// Reads the header from the beginning of a file and checks what it declares.
IdxHeader parse_header(std::string_view text, const std::string& file) {
  check_data(text.size() >= 4 && text[0] == 0 && text[1] == 0, file,
             "is not an IDX file: it does not start with two zero bytes");
  IdxHeader header;
  header.type = dtype_of(static_cast<uint8_t>(text[2]), file);
  const auto axes = static_cast<size_t>(static_cast<uint8_t>(text[3]));
  check_data(axes >= 1 && axes <= Shape::kMaxRank && text.size() >= 4 + 4 * axes, file,
             "declares {} dimensions, which is too many or more than the file holds", axes);
  uint64_t elements = 1;
  for (size_t i = 0; i < axes; ++i) {
    const uint32_t size = big_endian(text, 4 + 4 * i);
    elements *= size;  // both below 2^33: no overflow
    check_data(elements <= kMaxBytes, file, "declares more than {} elements", kMaxBytes);
    header.shape.push_back(size);
  }
  header.bytes = 4 + 4 * axes;
  header.data_bytes = static_cast<uint64_t>(bytes_of(header.type, static_cast<int64_t>(elements)));
  return header;
}

Tensor parse_idx(std::string_view text, const std::string& file) {
  const IdxHeader header = parse_header(text, file);
  const std::string_view data = text.substr(header.bytes);
  check_data(data.size() == header.data_bytes, file, "shape {} takes {} bytes, the file holds {}",
             header.shape, header.data_bytes, data.size());
  Tensor result = Tensor::empty(header.shape, header.type);
  if (header.type == DType::u8) {
    std::memcpy(result.raw(), data.data(), data.size());
  } else {
    auto* words = static_cast<uint32_t*>(result.raw());
    for (int64_t i = 0, count = result.numel(); i < count; ++i) {
      words[i] = big_endian(data, 4 * static_cast<size_t>(i));
    }
  }
  return result;
}

/// Decompresses the header first, then no more than the header declares.
std::string decompress_idx(std::string_view packed, const std::string& file) {
  GzipReader reader(file);
  std::string start(kLongestHeader, '\0');
  size_t made = 0;
  for (std::string_view rest = packed; made < start.size();) {
    const size_t more = reader.read(rest, start.data() + made, start.size() - made);
    made += more;
    if (more == 0 && rest.empty()) {
      break;
    }
  }
  start.resize(made);
  if (made < kLongestHeader) {
    reader.finish();  // truncated?
  }
  const IdxHeader header = parse_header(start, file);
  return gunzip(packed, file, header.bytes + header.data_bytes);
}

}  // namespace

Tensor load_idx(const std::filesystem::path& path) {
  const MappedFile mapping(path);
  const std::string& file = path.native();
  Tensor result = is_gzip(mapping.text()) ? parse_idx(decompress_idx(mapping.text(), file), file)
                                          : parse_idx(mapping.text(), file);
  mapping.check_not_truncated();
  return result;
}

}  // namespace heed
