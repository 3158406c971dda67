#include "base/check.h"
#include "base/utf8.h"
#include "io/gguf.h"
#include "io/gguf_format.h"

namespace heed {
namespace {

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_string(std::string& out, std::string_view text) {
  append(out, static_cast<uint64_t>(text.size()));
  out += text;
}

uint64_t padded(uint64_t bytes) {
  constexpr uint64_t kStep = gguf::kDefaultAlignment;
  return (bytes + kStep - 1) / kStep * kStep;
}

}  // namespace

void GgufWriter::begin(std::string_view key, GgufType type) {
  check(!key.empty() && key.size() <= gguf::kMaxKeyBytes && is_valid_utf8(key), "gguf",
        "{} cannot be a key", quote(key));
  check(key != "general.alignment", "gguf", "general.alignment is set by the writer; leave it out");
  check(keys_.emplace(key).second, "gguf", "key {} is written twice", quote(key));
  append_string(metadata_, key);
  append(metadata_, static_cast<uint32_t>(type));
}

void GgufWriter::begin_array(std::string_view key, GgufType type, uint64_t count) {
  begin(key, GgufType::array);
  append(metadata_, static_cast<uint32_t>(type));
  append(metadata_, count);
}

void GgufWriter::string(std::string_view key, std::string_view value) {
  begin(key, GgufType::string);
  append_string(metadata_, value);
}
void GgufWriter::u32(std::string_view key, uint32_t value) {
  begin(key, GgufType::u32);
  append(metadata_, value);
}
void GgufWriter::u64(std::string_view key, uint64_t value) {
  begin(key, GgufType::u64);
  append(metadata_, value);
}
void GgufWriter::f32(std::string_view key, float value) {
  begin(key, GgufType::f32);
  append(metadata_, value);
}
void GgufWriter::boolean(std::string_view key, bool value) {
  begin(key, GgufType::boolean);
  append(metadata_, static_cast<uint8_t>(value ? 1 : 0));
}

void GgufWriter::strings(std::string_view key, const std::vector<std::string>& values) {
  begin_array(key, GgufType::string, values.size());
  for (const std::string& value : values) {
    append_string(metadata_, value);
  }
}
void GgufWriter::i32s(std::string_view key, const std::vector<int32_t>& values) {
  begin_array(key, GgufType::i32, values.size());
  for (const int32_t value : values) {
    append(metadata_, value);
  }
}
void GgufWriter::f32s(std::string_view key, const std::vector<float>& values) {
  begin_array(key, GgufType::f32, values.size());
  for (const float value : values) {
    append(metadata_, value);
  }
}

void GgufWriter::value(std::string_view key, const GgufValue& value) {
  if (value.is_array) {
    begin_array(key, value.type, value.count);
  } else {
    begin(key, value.type);
  }
  metadata_.append(reinterpret_cast<const char*>(value.data.data()), value.data.size());
}

void GgufWriter::tensor(std::string_view name, const Tensor& tensor) {
  check(!name.empty() && name.size() <= gguf::kMaxNameBytes && is_valid_utf8(name), "gguf",
        "{} cannot name a tensor: empty, over {} bytes or not UTF-8", quote(name),
        gguf::kMaxNameBytes);
  for (const auto& [other, unused] : tensors_) {
    check(other != name, "gguf", "tensor {} is written twice", quote(name));
  }
  check(tensor.defined() && tensor.rank() <= gguf::kMaxAxes, "gguf",
        "tensor {} has more than {} axes or no value", quote(name), gguf::kMaxAxes);
  gguf::tensor_type_of(tensor.dtype());
  tensors_.emplace_back(name, tensor);
}

void GgufWriter::write(const std::filesystem::path& path) const {
  std::string head;
  append(head, gguf::kMagic);
  append(head, gguf::kVersion);
  append(head, static_cast<uint64_t>(tensors_.size()));
  append(head, static_cast<uint64_t>(keys_.size()));
  head += metadata_;
  uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors_) {
    append_string(head, name);
    append(head, static_cast<uint32_t>(tensor.rank()));
    for (int axis = tensor.rank() - 1; axis >= 0; --axis) {  // innermost first
      append(head, static_cast<uint64_t>(tensor.size(axis)));
    }
    append(head, gguf::tensor_type_of(tensor.dtype()));
    append(head, offset);
    offset += padded(static_cast<uint64_t>(tensor.bytes()));
  }
  head.resize(padded(head.size()), '\0');

  AtomicFile file(path);
  file.write(head);
  static constexpr char kZeros[gguf::kDefaultAlignment] = {};
  for (const auto& [name, tensor] : tensors_) {
    const Tensor flat = tensor.contiguous();
    const auto bytes = static_cast<uint64_t>(flat.bytes());
    file.write(flat.raw(), bytes);
    file.write(kZeros, padded(bytes) - bytes);
  }
  file.commit();
}

}  // namespace heed
