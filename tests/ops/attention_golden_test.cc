#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "heed/attention.h"
#include "heed/io.h"
#include "heed/ops.h"
#include "support/attention_case.h"
#include "support/check.h"
#include "support/data.h"

namespace heed {
namespace {

using test::AttentionCase;

std::vector<std::string> golden_cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test::golden("attention"))) {
    if (entry.path().extension() == ".safetensors") {
      names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

class AttentionGolden
    : public testing::TestWithParam<std::tuple<std::string, AttentionKernel, DType>> {};

/// A weight is exp(score - lse) and carries the rounding of both: in f32 a share that grows with
/// their size. The allowance is for scores up to 16; of larger ones (`sharp`) plain f32 in NumPy,
/// adding in forty random orders, used 0.2 to 1.0 of it, and another order may need a little more.
/// What is beyond 1e4 is a mask's and no score.
test::Tolerance for_scores(test::Tolerance close, const Tensor& lse, DType type) {
  constexpr double kUsual = 16, kMask = 1e4;
  double largest = kUsual;
  for (const double value : lse.to_doubles()) {
    if (type == DType::f32 && std::abs(value) < kMask) {
      largest = std::max(largest, std::abs(value));
    }
  }
  return {close.relative * largest / kUsual, close.absolute * largest / kUsual};
}

TEST_P(AttentionGolden, OutputWeightsAndGradientsArePyTorchs) {
  const auto& [name, kernel, type] = GetParam();
  AttentionCase given =
      test::load_attention_case(test::golden("attention/" + name + ".safetensors"), type);
  given.options.kernel = kernel;
  const test::Tolerance close = test::elementwise(DType::f32);

  struct Keep : Observer {
    AttentionRecord record;
    void attention(const std::string&, const AttentionRecord& seen) override { record = seen; }
  } keep;
  const Tensor output = attention(given.q, given.k, given.v, given.options);
  test::expect_close(output, given.expected.at("output"), close, "output");
  test::expect_close(keep.record.lse(), given.expected.at("lse"), close, "lse");
  if (given.expected.contains("weights")) {
    test::expect_close(keep.record.all_weights(), given.expected.at("weights"), {0, 1e-6},
                       "weights");
  }
  backward(output, given.grad_output);
  const test::Tolerance near = for_scores(close, given.expected.at("lse"), type);
  test::expect_close(given.q.grad(), given.expected.at("grad_q"), near, "grad_q");
  test::expect_close(given.k.grad(), given.expected.at("grad_k"), near, "grad_k");
  test::expect_close(given.v.grad(), given.expected.at("grad_v"), near, "grad_v");
  if (given.expected.contains("grad_mask")) {
    test::expect_close(given.options.bias.grad(), given.expected.at("grad_mask"), near,
                       "grad_mask");
  }
}

std::string name_of_kernel(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::reference:
      return "reference";
    case AttentionKernel::chunked:
      return "chunked";
    default:
      return "flash";
  }
}

INSTANTIATE_TEST_SUITE_P(All, AttentionGolden,
                         testing::Combine(testing::ValuesIn(golden_cases()),
                                          testing::Values(AttentionKernel::flash,
                                                          AttentionKernel::reference,
                                                          AttentionKernel::chunked),
                                          testing::Values(DType::f32, DType::f64)),
                         [](const auto& given) {
                           return std::get<0>(given.param) + "_" +
                                  name_of_kernel(std::get<1>(given.param)) + "_" +
                                  std::string(heed::name_of(std::get<2>(given.param)));
                         });

}  // namespace
}  // namespace heed
