#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/file.h"
#include "base/utf8.h"
#include "heed/io.h"

namespace heed {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct NpyType {
  DType type;
  std::string_view code;
};
constexpr NpyType kTypes[] = {
    {DType::f32, "<f4"}, {DType::f64, "<f8"}, {DType::f16, "<f2"},     {DType::i32, "<i4"},
    {DType::i64, "<i8"}, {DType::u8, "|u1"},  {DType::boolean, "|b1"},
};

/// What follows `'key':` in the header's Python dictionary.
std::string_view after_key(std::string_view header, std::string_view key, const std::string& file) {
  const size_t position = header.find(fmt::format("'{}'", key));
  check_data(position != std::string_view::npos, file, "its header has no {}", key);
  header.remove_prefix(position + key.size() + 2);
  const size_t content = header.find_first_not_of(" :");
  return header.substr(std::min(content, header.size()));
}

DType read_type(std::string_view header, const std::string& file) {
  const std::string_view text = after_key(header, "descr", file);
  for (const NpyType& known : kTypes) {
    if (text.starts_with(fmt::format("'{}'", known.code))) {
      return known.type;
    }
  }
  fail(ErrorKind::data, file,
       "its elements are {}; f2, f4, f8, i4, i8 (little-endian), u1 and b1 are supported",
       quote(text.substr(0, text.find(',')), 20));
}

Shape read_shape(std::string_view header, const std::string& file) {
  std::string_view text = after_key(header, "shape", file);
  const size_t end = text.find(')');
  check_data(text.starts_with('(') && end != std::string_view::npos, file,
             "its shape is not a tuple");
  text = text.substr(1, end - 1);
  Shape shape;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" ,"), text.size()));
    if (text.empty()) {
      return shape;
    }
    int64_t size = 0;
    size_t digits = 0;
    for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
      size = size * 10 + (text[digits] - '0');
      check_data(size < (int64_t{1} << 50), file, "its shape has a dimension that is too large");
    }
    check_data(digits > 0 && shape.rank() < Shape::kMaxRank, file,
               "its shape ({}) is not up to {} whole numbers", quote(text, 40), Shape::kMaxRank);
    shape.push_back(size);
    text.remove_prefix(digits);
  }
}

}  // namespace

Tensor load_npy(const std::filesystem::path& path) {
  const std::string& file = path.native();
  auto mapping = std::make_shared<MappedFile>(path);
  const std::string_view text = mapping->text();
  check_data(text.starts_with(kMagic) && text.size() >= 12, file, "is not a .npy file");
  const int version = static_cast<unsigned char>(text[6]);
  check_data(version >= 1 && version <= 3, file, "has .npy version {}; 1 to 3 are supported",
             version);
  uint32_t length = 0;
  const size_t start = version == 1 ? 10 : 12;
  std::memcpy(&length, text.data() + 8, start - 8);
  check_data(length <= text.size() - start && length <= 65536, file,
             "its header of {} bytes is longer than the file or than 65536", length);
  const std::string_view header = text.substr(start, length);
  const DType type = read_type(header, file);
  const bool columns_first = after_key(header, "fortran_order", file).starts_with("True");
  Shape shape = read_shape(header, file);
  const std::byte* data = mapping->bytes().data() + start + length;
  const size_t bytes = text.size() - start - length;
  // Strides are products of the other dimensions, also where one is 0.
  auto wanted = static_cast<uint64_t>(bytes_of(type, 1));
  bool empty = false;
  for (const int64_t size : shape) {
    empty = empty || size == 0;
    const bool overflows =
        __builtin_mul_overflow(wanted, static_cast<uint64_t>(std::max<int64_t>(size, 1)), &wanted);
    check_data(!overflows && wanted < uint64_t{1} << 63, file, "shape {} overflows", shape);
  }
  wanted = empty ? 0 : wanted;
  check_data(wanted == bytes, file, "shape {} of {} takes {} bytes, the file holds {}", shape,
             name_of(type), wanted, bytes);
  if (type == DType::boolean) {
    check_data(std::all_of(data, data + bytes, [](std::byte b) { return b <= std::byte{1}; }), file,
               "holds a bool that is neither 0 nor 1");
  }
  Tensor result = Tensor::empty(shape, type);
  std::memcpy(result.raw(), data, bytes);
  mapping->check_not_truncated();
  if (columns_first) {
    Shape strides = shape;
    int64_t step = 1;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      strides[axis] = step;
      step *= shape[axis];
    }
    return result.alias(shape, strides, 0).contiguous();
  }
  return result;
}

void save_npy(const std::filesystem::path& path, const Tensor& tensor) {
  const Tensor flat = (tensor.dtype() == DType::bf16 ? tensor.to(DType::f32) : tensor).contiguous();
  std::string_view code;
  for (const NpyType& known : kTypes) {
    code = known.type == flat.dtype() ? known.code : code;
  }
  check(!code.empty(), path.native(), "NumPy has no {}; dequantize() first", name_of(flat.dtype()));
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", code,
                  fmt::join(flat.shape(), ", "), flat.rank() == 1 ? "," : "");
  header.append(63 - (10 + header.size()) % 64, ' ');  // the data starts on a multiple of 64
  header += '\n';
  const auto length = static_cast<uint16_t>(header.size());
  AtomicFile file(path);
  file.write(kMagic);
  file.write(std::string_view("\x01\x00", 2));
  file.write(&length, sizeof length);
  file.write(header);
  file.write(flat.raw(), static_cast<size_t>(flat.bytes()));
  file.commit();
}

}  // namespace heed
