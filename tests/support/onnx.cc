#include "support/onnx.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace heed::test {
namespace {

struct Field {
  uint32_t number = 0;
  uint64_t value = 0;  // varints and fixed-width numbers
  std::string bytes;   // length-delimited
};

uint64_t read_varint(const std::string& message, size_t* at) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<uint8_t>(message.at((*at)++));
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      return value;
    }
  }
  throw std::runtime_error("bad varint");
}

std::vector<Field> fields_of(const std::string& message) {
  std::vector<Field> fields;
  for (size_t at = 0; at < message.size();) {
    const uint64_t tag = read_varint(message, &at);
    Field field;
    field.number = static_cast<uint32_t>(tag >> 3);
    switch (tag & 7) {
      case 0:
        field.value = read_varint(message, &at);
        break;
      case 1:
      case 5: {
        const size_t width = (tag & 7) == 1 ? 8 : 4;
        std::memcpy(&field.value, message.substr(at, width).data(), width);
        at += width;
        break;
      }
      case 2: {
        const uint64_t length = read_varint(message, &at);
        field.bytes = message.substr(at, length);
        at += length;
        break;
      }
      default:
        throw std::runtime_error("bad wire type");
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void read_attribute(const std::string& message, OnnxNode* node) {
  std::string name;
  double number = 0;
  for (const Field& field : fields_of(message)) {
    if (field.number == 1) {
      name = field.bytes;
    } else if (field.number == 2) {  // f
      float value = 0;
      std::memcpy(&value, &field.value, sizeof value);
      number = value;
    } else if (field.number == 3) {  // i
      number = static_cast<double>(static_cast<int64_t>(field.value));
    }
  }
  node->numbers[name] = number;
}

DType dtype_of_onnx(uint64_t type) {
  switch (type) {
    case 1:
      return DType::f32;
    case 2:
      return DType::u8;
    case 6:
      return DType::i32;
    case 7:
      return DType::i64;
    case 9:
      return DType::boolean;
    case 10:
      return DType::f16;
    case 11:
      return DType::f64;
    case 16:
      return DType::bf16;
    default:
      throw std::runtime_error("tensor type " + std::to_string(type));
  }
}

}  // namespace

OnnxNode load_onnx_node(const std::filesystem::path& model) {
  OnnxNode result;
  for (const Field& graph : fields_of(read_file(model))) {
    if (graph.number != 7) {
      continue;
    }
    for (const Field& node : fields_of(graph.bytes)) {
      if (node.number != 1) {
        continue;
      }
      for (const Field& field : fields_of(node.bytes)) {
        if (field.number == 1) {
          result.inputs.push_back(field.bytes);
        } else if (field.number == 2) {
          result.outputs.push_back(field.bytes);
        } else if (field.number == 5) {
          read_attribute(field.bytes, &result);
        }
      }
    }
  }
  return result;
}

Tensor load_onnx_tensor(const std::filesystem::path& path) {
  Shape shape;
  DType type = DType::f32;
  std::string raw;
  for (const Field& field : fields_of(read_file(path))) {
    if (field.number == 1) {
      if (field.bytes.empty()) {
        shape.push_back(static_cast<int64_t>(field.value));
      }
      for (size_t at = 0; at < field.bytes.size();) {
        shape.push_back(static_cast<int64_t>(read_varint(field.bytes, &at)));
      }
    } else if (field.number == 2) {
      type = dtype_of_onnx(field.value);
    } else if (field.number == 9) {
      raw = field.bytes;
    }
  }
  const Tensor tensor = Tensor::empty(shape, type);
  if (static_cast<int64_t>(raw.size()) != tensor.bytes()) {
    throw std::runtime_error(path.string() + ": not as raw data");
  }
  std::memcpy(tensor.raw(), raw.data(), raw.size());
  return tensor;
}

}  // namespace heed::test
