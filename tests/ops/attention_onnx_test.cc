// The ONNX operator Attention (opsets 23 and 24) on top of attention(): its own backend tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "heed/attention.h"
#include "heed/ops.h"
#include "support/check.h"
#include "support/data.h"
#include "support/onnx.h"

namespace heed {
namespace {

struct OnnxCall {
  std::map<std::string, double> numbers;
  Tensor q, k, v, mask, past_key, past_value, nonpad;

  double number(const std::string& name, double otherwise) const {
    const auto found = numbers.find(name);
    return found == numbers.end() ? otherwise : found->second;
  }
};

/// [B, T, heads·D] -> [B, heads, T, D]
Tensor split_heads(const Tensor& x, double heads) {
  const auto count = static_cast<int64_t>(heads);
  return transpose(reshape(x, {x.size(0), x.size(1), count, x.size(2) / count}), 1, 2);
}

/// Batch b may see the keys before nonpad[b]; under a causal mask its queries are the last of
/// those.
Tensor nonpad_mask(const OnnxCall& call, int64_t batch, int64_t queries, int64_t keys) {
  const bool causal = call.number("is_causal", 0) != 0 && !call.past_key.defined();
  const Tensor keep = Tensor::zeros({batch, 1, queries, keys}, DType::u8);
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t valid = call.nonpad.data<int64_t>()[b];
    for (int64_t i = 0; i < queries; ++i) {
      for (int64_t j = 0; j < keys; ++j) {
        keep.data<uint8_t>()[(b * queries + i) * keys + j] =
            j < valid && (!causal || j <= i + valid - queries) ? 1 : 0;
      }
    }
  }
  return keep;
}

/// A mask shorter than the keys hides the rest.
Tensor to_length(const Tensor& mask, int64_t keys) {
  if (mask.size(-1) >= keys) {
    return mask;
  }
  Shape shape = mask.shape();
  shape[shape.rank() - 1] = keys - mask.size(-1);
  const bool floating = is_floating(mask.dtype());
  return concat({mask, Tensor::full(shape, floating ? -INFINITY : 0.0, mask.dtype())}, -1);
}

std::map<std::string, Tensor> run_onnx(OnnxCall call) {
  const bool flat = call.q.rank() == 3;
  if (flat) {
    call.q = split_heads(call.q, call.number("q_num_heads", 1));
    call.k = split_heads(call.k, call.number("kv_num_heads", 1));
    call.v = split_heads(call.v, call.number("kv_num_heads", 1));
  }
  const int64_t past = call.past_key.defined() ? call.past_key.size(2) : 0;
  if (past > 0) {
    call.k = concat({call.past_key, call.k}, 2);
    call.v = concat({call.past_value, call.v}, 2);
  }
  AttentionOptions options;
  if (call.numbers.contains("scale")) {
    options.scale = call.numbers.at("scale");
  }
  options.softcap = call.number("softcap", 0);
  if (call.mask.defined()) {
    const Tensor mask = to_length(call.mask, call.k.size(2));
    (is_floating(mask.dtype()) ? options.bias : options.mask) = mask;
  }
  if (call.number("is_causal", 0) != 0 && !call.nonpad.defined()) {
    options.position = Causal{past};
  }
  if (call.nonpad.defined()) {
    const Tensor keep = nonpad_mask(call, call.q.size(0), call.q.size(2), call.k.size(2));
    if (options.mask.defined()) {
      options.mask = (keep.to(DType::f32) * options.mask.to(DType::f32)).to(DType::boolean);
    } else {
      options.mask = keep;
    }
  }
  Tensor y = attention(call.q, call.k, call.v, options);
  const AttentionSteps steps = attention_steps(call.q, call.k, call.v, options);
  if (flat) {
    y = reshape(transpose(y, 1, 2), {y.size(0), y.size(2), -1});
  }
  // Mode 0: the scaled product; 1: after the soft-cap; 2: with mask; 3: the weights.
  const auto mode = static_cast<int>(call.number("qk_matmul_output_mode", 0));
  Tensor scores = steps.scaled;
  if (mode == 2) {
    scores = steps.masked;
  } else if (mode == 3) {
    scores = steps.weights;
  }
  return {
      {"Y", y}, {"present_key", call.k}, {"present_value", call.v}, {"qk_matmul_output", scores}};
}

std::vector<std::string> onnx_cases() {
  std::vector<std::string> names;
  const auto folder = test::shared_data("onnx-attention");
  if (std::filesystem::exists(folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.is_directory()) {
        names.push_back(entry.path().filename().string());
      }
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

class OnnxAttention : public testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OnnxAttention);

TEST_P(OnnxAttention, Conforms) {
  const auto folder = test::shared_data("onnx-attention") / GetParam();
  const test::OnnxNode node = test::load_onnx_node(folder / "model.onnx");
  OnnxCall call{node.numbers, {}, {}, {}, {}, {}, {}, {}};
  Tensor* slots[] = {&call.q,        &call.k,          &call.v,     &call.mask,
                     &call.past_key, &call.past_value, &call.nonpad};
  int file = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].empty()) {
      *slots[i] = test::load_onnx_tensor(folder / "test_data_set_0" /
                                         ("input_" + std::to_string(file++) + ".pb"));
    }
  }
  const auto results = run_onnx(call);
  const char* names[] = {"Y", "present_key", "present_value", "qk_matmul_output"};
  file = 0;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) {
      continue;
    }
    const Tensor expected = test::load_onnx_tensor(folder / "test_data_set_0" /
                                                   ("output_" + std::to_string(file++) + ".pb"));
    // ONNX's own backend tests allow rtol 1e-3, atol 1e-7; f16 is rounded at every step there.
    const bool half = expected.dtype() == DType::f16;
    test::expect_close(results.at(names[i]), expected,
                       half ? test::Tolerance{1e-2, 1e-3} : test::elementwise(DType::f32),
                       names[i]);
  }
  EXPECT_GT(file, 0);
}

INSTANTIATE_TEST_SUITE_P(All, OnnxAttention, testing::ValuesIn(onnx_cases()),
                         [](const auto& given) { return given.param; });

}  // namespace
}  // namespace heed
