#include "models/rope.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/io.h"
#include "support/check.h"
#include "support/data.h"

namespace heed::test {
namespace {

Json config(const std::string& text) { return Json::parse(text, "config.json"); }

TEST(RotaryFrequencies, Llama3ScalingIsTheReference) {
  const TensorMap expected = load_safetensors(golden("positions/rotary_llama3.safetensors"));
  const std::string scaling = R"("factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 8192, "rope_type": "llama3")";
  const Tensor& frequencies = expected.at("inverse_frequencies");
  const int64_t width = 2 * frequencies.numel();
  for (const std::string& text :
       {R"({"rope_theta": 500000.0, "rope_scaling": {)" + scaling + "}}",
        R"({"rope_parameters": {"rope_theta": 500000.0, )" + scaling + "}}"}) {
    const std::vector<double> actual = rotary_frequencies(config(text), width);
    expect_close(frequencies, actual, {1e-6, 0.0}, text);
  }
}

TEST(RotaryFrequencies, OneFactorAPair) {
  const std::vector<double> actual =
      rotary_frequencies(config(R"({"rope_theta": 100.0, "rope_scaling": {"rope_type": "longrope",
                 "long_factor": [1, 4], "short_factor": [1, 4], "attention_factor": 1.0}})"),
                         4);
  EXPECT_DOUBLE_EQ(actual[0], 1.0);
  EXPECT_DOUBLE_EQ(actual[1], 0.1 / 4);
}

/// Tables grow with the positions; those of a longer table are the same.
TEST(Rotary, FarPositionsDoNotChangeNearOnes) {
  const Rotary rotary(8, 5000, 10000.0);
  const Tensor x = random_normal({1, 2, 8});
  const Tensor near = Tensor::from({int64_t{17}}, {1});
  const Tensor before = rotary(x, near);
  rotary(x, Tensor::from({int64_t{4999}}, {1}));
  expect_same_bits(rotary(x, near), before, "position 17");
  // Positions that a sliding cache reaches beyond the table's end.
  const std::vector<float> from = x.to_vector<float>();
  std::vector<double> expected(16);
  for (size_t i = 0; i < 4; ++i) {
    const auto frequency = static_cast<float>(std::pow(10000.0, -static_cast<double>(i) / 4.0));
    const double angle = 5000.0 * static_cast<double>(frequency);
    for (size_t at : {i, 8 + i}) {
      expected[at] = from[at] * std::cos(angle) - from[at + 4] * std::sin(angle);
      expected[at + 4] = from[at + 4] * std::cos(angle) + from[at] * std::sin(angle);
    }
  }
  expect_close(rotary(x, Tensor::from({int64_t{5000}}, {1})), expected, {0.0, 2e-5},
               "position 5000");
}

}  // namespace
}  // namespace heed::test
