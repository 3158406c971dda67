#pragma once

#include <algorithm>
#include <cstring>

#include "heed/io.h"
#include "heed/models.h"
#include "heed/runtime.h"
#include "models/forward.h"
#include "support/check.h"
#include "support/data.h"

namespace heed::test {

/// A model with its inputs from a folder of reference values.
struct Case {
  std::unique_ptr<Model> model;
  ModelInput input;
};

/// "models/t5_relu", or "training/seq2seq" with its first batch.
inline Case load_case(const std::string& name, bool trainable = false) {
  const std::filesystem::path folder = golden(name);
  Case result{load_model(folder, {.trainable = trainable}), {}};
  if (std::filesystem::exists(folder / "inputs.safetensors")) {
    result.input = model_input(load_safetensors(folder / "inputs.safetensors"), "inputs");
    return result;
  }
  TensorMap batch;
  for (const auto& [key, stacked] : load_safetensors(folder / "batches.safetensors")) {
    batch.emplace(key, select(stacked, 0, 0).contiguous());
  }
  result.input = model_input(batch, "batches");
  return result;
}

inline std::string case_name(const testing::TestParamInfo<const char*>& each) {
  const std::string name = each.param;
  return name.substr(name.find('/') + 1);
}

/// Real positions of one row of a mask; all of them where there is no mask.
inline int64_t real_length(const Tensor& mask, int64_t row, int64_t length) {
  if (!mask.defined()) {
    return length;
  }
  const std::vector<int64_t> values = select(mask, 0, row).to_vector<int64_t>();
  return std::count(values.begin(), values.end(), 1);
}

/// One row of a batch without its padding, [1, length, ...].
inline Tensor row_of(const Tensor& batch, int64_t row, int64_t length) {
  if (!batch.defined()) {
    return {};
  }
  const Tensor one = slice(batch, 0, row, row + 1);
  return (batch.rank() > 1 && length > 0 ? slice(one, 1, 0, length) : one).contiguous();
}

}  // namespace heed::test
