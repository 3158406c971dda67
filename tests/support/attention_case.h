#pragma once

#include <filesystem>

#include "heed/attention.h"
#include "heed/io.h"

namespace heed::test {

/// A file of tests/golden/attention as inputs and options of attention(). q, k, v and a float mask
/// want gradients.
struct AttentionCase {
  Tensor q, k, v, grad_output;
  AttentionOptions options;
  TensorMap expected;
};
AttentionCase load_attention_case(const std::filesystem::path& path, DType type);

}  // namespace heed::test
