#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "heed/tensor.h"

namespace heed::test {

/// The one node of an ONNX backend test: just enough of its protobuf to run it.
struct OnnxNode {
  std::vector<std::string> inputs;  ///< "" where an optional one is left out
  std::vector<std::string> outputs;
  std::map<std::string, double> numbers;  ///< int and float attributes
};
OnnxNode load_onnx_node(const std::filesystem::path& model);

/// A TensorProto: f32, f64, f16, bf16, i64, i32, bool or u8 as raw data.
Tensor load_onnx_tensor(const std::filesystem::path& path);

}  // namespace heed::test
