#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "heed/attention.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "support/check.h"
#include "support/error.h"

namespace heed {
namespace {

using test::random_normal;

struct Keep : Observer {
  std::map<std::string, AttentionRecord> records;
  std::vector<std::string> seen;
  bool ablated = false;
  void attention(const std::string& name, const AttentionRecord& record) override {
    records[name] = record;
  }
  bool wants(const std::string& name) override {
    seen.push_back(name);
    return ablated;
  }
  Tensor activation(const std::string&, const Tensor& value) override { return value * 0.0; }
  void adjust(const std::string& name, AttentionOptions& options) override {
    if (name == "blocks.1.attn") {
      options.position = NoMask{};
    }
  }
};

TEST(AttentionRecord, WeightsAreTheKernelsOwn) {
  const Tensor q = random_normal({2, 4, 150, 40}, DType::f32, 1);
  const Tensor k = random_normal({2, 2, 200, 40}, DType::f32, 2);
  const Tensor v = random_normal({2, 2, 200, 16}, DType::f32, 3);
  AttentionOptions options;
  options.position = Causal{50};
  options.bias = random_normal({4, 150, 200}, DType::f32, 4);
  options.dropout = 0.5;  // never shown
  options.training = true;
  Keep keep;
  attention(q, k, v, options);
  const AttentionRecord record = keep.records.at("");
  const AttentionSteps steps = attention_steps(q, k, v, options);
  const Tensor all = record.all_weights();
  test::expect_close(all, steps.weights, {0, 1e-6}, "weights");
  test::expect_close(record.lse(), steps.lse, test::elementwise(DType::f32), "lse");
  for (const double total : sum(all, -1).to_doubles()) {
    EXPECT_NEAR(total, 1.0, 1e-5);
  }
  // Any part has the bits of the whole.
  const Tensor head = record.weights(1, 3);
  test::expect_same_bits(head, select(select(all, 0, 1), 0, 3));
  test::expect_same_bits(record.weights(1, 3, 60, 70, 63, 131),
                         slice(slice(head, 0, 60, 70), 1, 63, 131));
  EXPECT_EQ(record.weights(0, 0, 5, 5, 0, 200).shape(), Shape({0, 200}));
  EXPECT_ERROR(record.weights(2, 0),
               "weights: batch 2, head 0, rows 0 to 150 and keys 0 to 200 do not lie inside [2, 4");
  EXPECT_ERROR(record.weights(0, 0, 0, 151, 0, 1),
               "weights: batch 0, head 0, rows 0 to 151 and keys 0 to 1 do not lie inside [2, 4");
}

TEST(AttentionRecord, WeightsTimesValuesIsTheOutput) {
  const Tensor q = random_normal({1, 1, 90, 64}, DType::f32, 1) * 8.0;  // sharp: scores of ±60
  const Tensor k = random_normal({1, 1, 90, 64}, DType::f32, 2);
  const Tensor identity = [] {
    Tensor eye = Tensor::zeros({1, 1, 90, 90});
    for (int64_t i = 0; i < 90; ++i) {
      eye.data<float>()[i * 91] = 1;
    }
    return eye;
  }();
  Keep keep;
  // With the identity as values the output is the weights that the kernel used.
  const Tensor used = attention(q, k, identity);
  test::expect_close(keep.records.at("").all_weights(), used, {0, 1e-6});
}

TEST(AttentionRecord, StepsFollowTheFormula) {
  const Tensor q = Tensor::from({1.0f, 0.0f, 0.0f, 2.0f}, {1, 1, 2, 2});
  const Tensor v = Tensor::from({1.0f, 2.0f, 3.0f, 4.0f}, {1, 1, 2, 2});
  AttentionOptions options;
  options.position = Causal{};
  options.scale = 0.5;
  const AttentionSteps steps = attention_steps(q, q, v, options);
  const test::Tolerance close = test::elementwise(DType::f32);
  test::expect_close(steps.scores, std::vector<double>{1, 0, 0, 4}, close);
  test::expect_close(steps.scaled, std::vector<double>{0.5, 0, 0, 2}, close);
  test::expect_close(steps.masked, std::vector<double>{0.5, -INFINITY, 0, 2}, close);
  const double far = 1 / (1 + std::exp(2.0));
  test::expect_close(steps.weights, std::vector<double>{1, 0, far, 1 - far}, close);
  test::expect_close(steps.output, std::vector<double>{1, 2, 3 - 2 * far, 4 - 2 * far}, close);
  test::expect_close(steps.lse, std::vector<double>{0.5, 2 - std::log(1 - far)}, close);
}

TEST(Observer, NamesPlacesAndAdjustsOptions) {
  const Tensor x = random_normal({1, 1, 4, 4}, DType::f32, 1);
  AttentionOptions options;
  options.position = Causal{};
  const auto model = [&] {
    for (int64_t block = 0; block < 2; ++block) {
      const HookScope hook_scope("blocks", block);
      const HookScope here("attn");
      attention(observe("hook_q", x), x, x, options);
    }
  };
  model();  // without an observer
  Keep keep;
  model();
  EXPECT_EQ(keep.seen, (std::vector<std::string>{"blocks.0.attn.hook_q", "blocks.1.attn.hook_q"}));
  ASSERT_EQ(keep.records.size(), 2u);
  EXPECT_EQ(keep.records.at("blocks.0.attn").weights(0, 0).to_doubles()[3], 0.0);
  EXPECT_GT(keep.records.at("blocks.1.attn").weights(0, 0).to_doubles()[3], 0.0);
  EXPECT_EQ(HookScope::path("end"), "end");
  keep.ablated = true;
  model();
  EXPECT_EQ(keep.records.at("blocks.0.attn").q.to_doubles()[0], 0.0);
  {
    Keep inner;
    EXPECT_EQ(Observer::current(), &inner);
  }
  EXPECT_EQ(Observer::current(), &keep);
}

}  // namespace
}  // namespace heed
