#include <gtest/gtest.h>

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
  test::expect_close(given.q.grad(), given.expected.at("grad_q"), close, "grad_q");
  test::expect_close(given.k.grad(), given.expected.at("grad_k"), close, "grad_k");
  test::expect_close(given.v.grad(), given.expected.at("grad_v"), close, "grad_v");
  if (given.expected.contains("grad_mask")) {
    test::expect_close(given.options.bias.grad(), given.expected.at("grad_mask"), close,
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
