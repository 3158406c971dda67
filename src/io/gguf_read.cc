#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/utf8.h"
#include "io/gguf.h"
#include "io/gguf_format.h"

namespace heed {
namespace {

// Far above what models have (about 40 values and 1,000 tensors), and low enough that a file made
// to hurt costs little.
constexpr uint64_t kMaxValues = 10'000;
constexpr uint64_t kMaxTensors = 100'000;

/// Takes pieces off the front of the file; a piece that is not all there is an error.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  uint64_t position() const { return position_; }
  uint64_t left() const { return bytes_.size() - position_; }

  std::span<const std::byte> take(uint64_t count, std::string_view what) {
    check_data(count <= left(), file_, "{} takes {} bytes at {}; the file has {} left", what, count,
               position_, left());
    const auto piece = bytes_.subspan(position_, count);
    position_ += count;
    return piece;
  }

  template <class T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  std::string_view string(std::string_view what) {
    const auto length = number<uint64_t>(what);
    const auto bytes = take(length, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::span<const std::byte> since(uint64_t begin) const {
    return bytes_.subspan(begin, position_ - begin);
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& file_;
  uint64_t position_ = 0;
};

void read_elements(Reader& reader, GgufValue& value, const std::string& what,
                   const std::string& file) {
  const uint64_t begin = reader.position();
  if (value.type == GgufType::string) {
    check_data(value.count <= reader.left() / 8, file,
               "{} has {} strings; the file has {} bytes left", what, value.count, reader.left());
    for (uint64_t i = 0; i < value.count; ++i) {
      reader.string(what);
    }
  } else {
    const uint64_t each = gguf::scalar_bytes(value.type);
    check_data(each != 0, file, "{} has {} type {}", what,
               value.is_array ? "elements of nested or unknown" : "unknown",
               static_cast<uint32_t>(value.type));
    check_data(value.count <= reader.left() / each, file,
               "{} has {} elements; the file has {} bytes left", what, value.count, reader.left());
    reader.take(value.count * each, what);
  }
  value.data = reader.since(begin);
  if (value.type == GgufType::boolean) {
    for (const std::byte flag : value.data) {
      check_data(flag <= std::byte{1}, file, "{} is a bool that is neither 0 nor 1", what);
    }
  }
}

std::pair<std::string, GgufValue> read_value(Reader& reader, const std::string& file) {
  const std::string_view key = reader.string("a key");
  check_data(!key.empty() && key.size() <= gguf::kMaxKeyBytes && is_valid_utf8(key), file,
             "{} cannot be a key: empty, over {} bytes or not UTF-8", quote(key),
             gguf::kMaxKeyBytes);
  const std::string what = "value " + quote(key);
  GgufValue value;
  value.type = static_cast<GgufType>(reader.number<uint32_t>(what));
  if (value.type == GgufType::array) {
    value.is_array = true;
    value.type = static_cast<GgufType>(reader.number<uint32_t>(what));
    value.count = reader.number<uint64_t>(what);
  }
  read_elements(reader, value, what, file);
  return {std::string(key), value};
}

struct TensorInfo {
  std::string name;
  Shape shape;
  DType type = DType::f32;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

TensorInfo read_tensor_info(Reader& reader, const std::string& file) {
  TensorInfo info;
  const std::string_view name = reader.string("a tensor's name");
  check_data(!name.empty() && name.size() <= gguf::kMaxNameBytes && is_valid_utf8(name), file,
             "{} cannot name a tensor: empty, over {} bytes or not UTF-8", quote(name),
             gguf::kMaxNameBytes);
  info.name = name;
  const std::string what = "tensor " + quote(name);
  const auto axes = reader.number<uint32_t>(what);
  check_data(axes <= gguf::kMaxAxes, file, "{} has {} axes; at most {} are possible", what, axes,
             gguf::kMaxAxes);
  uint64_t elements = 1;
  uint64_t strides = 1;  // the product without the zeros: what a row-major stride can reach
  for (uint32_t i = 0; i < axes; ++i) {
    const auto dim = reader.number<uint64_t>(what);
    check_data(dim < (uint64_t{1} << 60), file, "{}: dimension {} is negative or too large", what,
               static_cast<int64_t>(dim));
    check_data(!__builtin_mul_overflow(strides, std::max<uint64_t>(dim, 1), &strides) &&
                   strides < (uint64_t{1} << 60),
               file, "{}: its dimensions overflow", what);
    elements *= dim;
    info.shape.insert(0, static_cast<int64_t>(dim));  // the file has the innermost axis first
  }
  info.type = gguf::dtype_of(reader.number<uint32_t>(what), file, info.name);
  info.offset = reader.number<uint64_t>(what);
  const int64_t row = axes > 0 ? info.shape[static_cast<int>(axes) - 1] : 1;
  check_data(row % block_of(info.type) == 0, file,
             "{}: rows of {} are no multiple of {}'s block of {}", what, row, name_of(info.type),
             block_of(info.type));
  info.bytes = static_cast<uint64_t>(bytes_of(info.type, static_cast<int64_t>(elements)));
  return info;
}

void check_layout(std::vector<TensorInfo>& infos, uint64_t alignment, uint64_t data_bytes,
                  const std::string& file) {
  std::stable_sort(infos.begin(), infos.end(),
                   [](const auto& a, const auto& b) { return a.offset < b.offset; });
  uint64_t end = 0;
  for (const TensorInfo& info : infos) {
    check_data(info.offset % alignment == 0, file, "tensor {}: offset {} is no multiple of {}",
               quote(info.name), info.offset, alignment);
    check_data(info.offset <= data_bytes && info.bytes <= data_bytes - info.offset, file,
               "tensor {}: {} bytes at {} lie past the end; the file holds {} bytes of data",
               quote(info.name), info.bytes, info.offset, data_bytes);
    check_data(info.offset >= end, file, "tensor {} overlaps the one before it", quote(info.name));
    end = info.offset + info.bytes;
  }
}

uint64_t read_alignment(const std::map<std::string, GgufValue, std::less<>>& values,
                        const std::string& file) {
  const auto found = values.find("general.alignment");
  if (found == values.end()) {
    return gguf::kDefaultAlignment;
  }
  check_data(!found->second.is_array && found->second.type == GgufType::u32, file,
             "general.alignment is not of type u32");
  uint32_t alignment = 0;
  std::memcpy(&alignment, found->second.data.data(), sizeof alignment);
  check_data(std::has_single_bit(alignment), file,
             "general.alignment is {}; a power of two is wanted", alignment);
  return alignment;
}

Tensor tensor_of(const TensorInfo& info, const std::byte* data,
                 const std::shared_ptr<MappedFile>& mapping) {
  const auto alignment =
      static_cast<uint64_t>(is_quantized(info.type) ? 2 : bytes_of(info.type, 1));
  if (reinterpret_cast<uintptr_t>(data) % alignment == 0) {
    return Tensor::borrow(data, info.shape, info.type, mapping);
  }
  Tensor copy = Tensor::empty(info.shape, info.type);
  std::memcpy(copy.raw(), data, info.bytes);
  return copy;
}

void check_start(Reader& reader, const std::string& file) {
  check_data(reader.number<uint32_t>("the magic") == gguf::kMagic, file,
             "is no GGUF file: it does not start with 'GGUF'");
  const auto version = reader.number<uint32_t>("the version");
  check_data((version & 0xffff) != 0 || version == 0, file,
             "is a big-endian GGUF file; little-endian ones are read");
  check_data(version == 2 || version == gguf::kVersion, file,
             "has GGUF version {}; 2 and 3 are read", version);
}

}  // namespace

GgufFile::GgufFile(const std::filesystem::path& path)
    : GgufFile(gguf::shard_path(path, 1).value_or(path), OneFile()) {
  if (has("split.count")) {
    add_shards();
  }
}

GgufFile::GgufFile(const std::filesystem::path& path, OneFile)
    : mapping_(std::make_shared<MappedFile>(path)) {
  Reader reader(mapping_->bytes(), file());
  check_start(reader, file());
  const auto tensor_count = reader.number<uint64_t>("the tensor count");
  const auto value_count = reader.number<uint64_t>("the metadata count");
  check_data(tensor_count <= kMaxTensors, file(), "claims {} tensors; at most {} are read",
             tensor_count, kMaxTensors);
  check_data(value_count <= kMaxValues, file(), "claims {} metadata values; at most {} are read",
             value_count, kMaxValues);
  for (uint64_t i = 0; i < value_count; ++i) {
    const auto [place, fresh] = values_.insert(read_value(reader, file()));
    check_data(fresh, file(), "key {} is there twice", quote(place->first));
  }
  std::vector<TensorInfo> infos;
  for (uint64_t i = 0; i < tensor_count; ++i) {
    infos.push_back(read_tensor_info(reader, file()));
  }
  const uint64_t alignment = read_alignment(values_, file());
  const uint64_t start = (reader.position() + alignment - 1) / alignment * alignment;
  const uint64_t size = mapping_->bytes().size();
  check_layout(infos, alignment, size >= start ? size - start : 0, file());
  for (const TensorInfo& info : infos) {
    // An empty tensor may stand at the end of a file without the padding before the data.
    const std::byte* data = mapping_->bytes().data() + (info.bytes > 0 ? start + info.offset : 0);
    const bool fresh = tensors_.emplace(info.name, tensor_of(info, data, mapping_)).second;
    check_data(fresh, file(), "tensor {} is there twice", quote(info.name));
  }
  mapping_->check_not_truncated();
}

}  // namespace heed
