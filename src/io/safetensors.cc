#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "base/utf8.h"
#include "heed/io.h"
#include "io/json_writer.h"
#include "io/safetensors_header.h"

namespace heed {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;  // Hugging Face's own limit

struct StoredType {
  DType type;
  std::string_view name;
};
/// The dtypes that need no conversion, in the order in which Hugging Face stores tensors: by
/// decreasing alignment, so that no tensor is misaligned.
constexpr StoredType kStored[] = {
    {DType::i64, "I64"},   {DType::f64, "F64"}, {DType::f32, "F32"}, {DType::i32, "I32"},
    {DType::bf16, "BF16"}, {DType::f16, "F16"}, {DType::u8, "U8"},   {DType::boolean, "BOOL"},
};

size_t rank_of(DType type, std::string_view name, std::string_view file) {
  for (size_t i = 0; i < std::size(kStored); ++i) {
    if (kStored[i].type == type) {
      return i;
    }
  }
  fail(ErrorKind::usage, file, "tensor {} is {}, which safetensors cannot hold; write GGUF instead",
       quote(name), name_of(type));
}

struct OpenFile {
  std::shared_ptr<MappedFile> mapping;
  SafetensorsHeader header;
  const std::byte* data = nullptr;
};

OpenFile open(const std::filesystem::path& path) {
  OpenFile file;
  file.mapping = std::make_shared<MappedFile>(path);
  const auto bytes = file.mapping->bytes();
  const std::string& where = path.native();
  check_data(bytes.size() >= 8, where, "has {} bytes; a safetensors file has at least 8",
             bytes.size());
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  check_data(length <= kMaxHeader, where, "header length {} is over the limit of {}", length,
             kMaxHeader);
  check_data(length <= bytes.size() - 8, where, "header length {} is more than the file's {} bytes",
             length, bytes.size());
  file.data = bytes.data() + 8 + length;
  file.header = parse_safetensors_header(file.mapping->text().substr(8, length),
                                         bytes.size() - 8 - length, where);
  file.mapping->check_not_truncated();
  return file;
}

template <class From, class To>
Tensor widened(const std::byte* data, const Shape& shape) {
  Tensor result = Tensor::empty(shape, DTypeOf<To>::value);
  To* out = result.template data<To>();
  for (int64_t i = 0, count = shape.numel(); i < count; ++i) {
    From value;
    std::memcpy(&value, data + static_cast<size_t>(i) * sizeof(From), sizeof(From));
    // NOLINTNEXTLINE(bugprone-signed-char-misuse): a number of 8 bits, not a character
    out[i] = static_cast<To>(value);
  }
  return result;
}

Tensor tensor_of(const OpenFile& file, const SafetensorsEntry& entry) {
  const std::byte* data = file.data + entry.begin;
  for (const StoredType& stored : kStored) {
    if (stored.name != entry.dtype) {
      continue;
    }
    if (stored.type == DType::boolean) {
      const bool clean =
          std::all_of(data, file.data + entry.end, [](std::byte b) { return b <= std::byte{1}; });
      check_data(clean, file.mapping->path().native(), "tensor {}: a BOOL that is neither 0 nor 1",
                 quote(entry.name));
    }
    const uint64_t alignment = safetensors_element_bytes(entry.dtype);
    if (reinterpret_cast<uintptr_t>(data) % alignment == 0) {
      return Tensor::borrow(data, entry.shape, stored.type, file.mapping);
    }
    Tensor copy = Tensor::empty(entry.shape, stored.type);
    std::memcpy(copy.raw(), data, entry.end - entry.begin);
    return copy;
  }
  if (entry.dtype == "I8") {
    return widened<int8_t, int32_t>(data, entry.shape);
  }
  if (entry.dtype == "I16") {
    return widened<int16_t, int32_t>(data, entry.shape);
  }
  if (entry.dtype == "U16") {
    return widened<uint16_t, int32_t>(data, entry.shape);
  }
  return widened<uint32_t, int64_t>(data, entry.shape);
}

void append_metadata(std::string& header, const Metadata& metadata, std::string_view file) {
  header += "\"__metadata__\":{";
  for (const auto& [key, value] : metadata) {
    check(is_valid_utf8(key) && is_valid_utf8(value), file, "metadata {} is not UTF-8", quote(key));
    header += header.ends_with('{') ? "" : ",";
    append_json_string(header, key);
    header += ':';
    append_json_string(header, value);
  }
  header += '}';
}

/// The JSON part, padded with spaces so that the data starts on a multiple of 8.
std::string make_header(const std::vector<const TensorMap::value_type*>& order,
                        const Metadata& metadata, std::string_view file) {
  std::string header = "{";
  if (!metadata.empty()) {
    append_metadata(header, metadata, file);
  }
  uint64_t at = 0;
  for (const auto* item : order) {
    const auto& [name, tensor] = *item;
    check(name != "__metadata__" && is_valid_utf8(name), file, "{} cannot name a tensor",
          quote(name));
    header += header.size() == 1 ? "" : ",";
    append_json_string(header, name);
    const uint64_t end = at + static_cast<uint64_t>(tensor.bytes());
    header += fmt::format(R"(:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          kStored[rank_of(tensor.dtype(), name, file)].name,
                          fmt::join(tensor.shape(), ","), at, end);
    at = end;
  }
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');
  check(header.size() <= kMaxHeader, file, "the header would have {} bytes; at most {} can be read",
        header.size(), kMaxHeader);
  return header;
}

}  // namespace

TensorMap load_safetensors(const std::filesystem::path& path) {
  const OpenFile file = open(path);
  TensorMap tensors;
  for (const SafetensorsEntry& entry : file.header.entries) {
    tensors.emplace(entry.name, tensor_of(file, entry));
  }
  file.mapping->check_not_truncated();
  return tensors;
}

Metadata safetensors_metadata(const std::filesystem::path& path) {
  return open(path).header.metadata;
}

void save_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                      const Metadata& metadata) {
  const std::string& where = path.native();
  std::vector<const TensorMap::value_type*> order;
  for (const auto& item : tensors) {
    check(item.second.defined(), where, "tensor {} has no value", quote(item.first));
    order.push_back(&item);
  }
  std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) {
    return rank_of(a->second.dtype(), a->first, where) <
           rank_of(b->second.dtype(), b->first, where);
  });
  const std::string header = make_header(order, metadata, where);
  AtomicFile file(path);
  const uint64_t length = header.size();
  file.write(&length, sizeof length);
  file.write(header);
  for (const auto* item : order) {
    const Tensor flat = item->second.contiguous();
    file.write(flat.raw(), static_cast<size_t>(flat.bytes()));
  }
  file.commit();
}

}  // namespace heed
