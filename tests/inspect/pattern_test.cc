// Attention that never forms a matrix over all pairs of positions is shown as one: its weights are
// those of the pass, whichever part of them is asked for.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>

#include "heed/inspect.h"
#include "heed/ops.h"
#include "heed/tensor.h"
#include "support/check.h"

namespace heed::test {
namespace {

constexpr int64_t kLength = 96;

/// Keeps the one attention that a call shows.
class Shown final : public Observer {
 public:
  explicit Shown(bool cuts = false) : cuts_(cuts) {}
  bool wants(const std::string& name) override { return name.ends_with("_map"); }
  void attention(const std::string&, const AttentionRecord& record) override {
    ++count;
    made = record;
  }
  void adjust(const std::string&, AttentionOptions& options) override;
  int64_t count = 0;
  AttentionRecord made;

 private:
  bool cuts_;
};

/// Another pattern without one edge.
class WithoutEdge final : public ScorePattern {
 public:
  explicit WithoutEdge(std::shared_ptr<const ScorePattern> before) : before_(std::move(before)) {}
  Tensor part(int64_t batch, int64_t head, std::span<const int64_t> rows, int64_t key_begin,
              int64_t key_end) const override {
    const Tensor result = before_->part(batch, head, rows, key_begin, key_end);
    for (size_t i = 0; result.defined() && i < rows.size(); ++i) {
      if (rows[i] == 40 && key_begin <= 41 && key_end > 41) {
        result.data<float>()[static_cast<int64_t>(i) * (key_end - key_begin) + 41 - key_begin] =
            -INFINITY;
      }
    }
    return result;
  }

 private:
  std::shared_ptr<const ScorePattern> before_;
};

void Shown::adjust(const std::string&, AttentionOptions& options) {
  if (cuts_) {
    options.pattern = std::make_shared<WithoutEdge>(options.pattern);
  }
}

struct Case {
  std::string name;
  std::function<Tensor()> run;
};

Tensor drawn(uint64_t seed, int64_t heads = 2) {
  return random_normal({1, heads, kLength, 8}, DType::f32, seed);
}

Case longformer(bool global) {
  LongformerInputs in;
  in.q = drawn(1);
  in.k = drawn(2);
  in.v = drawn(3);
  in.window = 12;
  if (global) {
    in.q_global = drawn(4);
    in.k_global = drawn(5);
    in.v_global = drawn(6);
    in.global_mask = Tensor::zeros({1, kLength}, DType::u8);
    in.global_mask.data<uint8_t>()[0] = in.global_mask.data<uint8_t>()[50] = 1;
  }
  return {global ? "longformer, global" : "longformer", [in] { return longformer_attention(in); }};
}

Case performer(bool causal) {
  const Tensor projection = performer_projection(24, 8, {3, 0});
  return {causal ? "performer, causal" : "performer",
          [=] { return performer_attention(drawn(1), drawn(2), drawn(3), projection, causal); }};
}

Case swin(int64_t shift) {
  SwinInputs in;
  in.q = drawn(1);
  in.k = drawn(2);
  in.v = drawn(3);
  in.height = 8;
  in.width = 12;
  in.window = 4;
  in.shift = shift;
  in.bias_table = random_normal({49, 2}, DType::f32, 9);
  return {"swin", [in] { return swin_attention(in); }};
}

std::vector<Case> cases() {
  return {longformer(false), longformer(true), performer(false), performer(true), swin(0), swin(2)};
}

TEST(ScorePatterns, WeightsTimesValuesAreTheOutputOfThePass) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    const Tensor plain = each.run();
    Shown shown;
    expect_same_bits(each.run(), plain, each.name);
    ASSERT_EQ(shown.count, 1);
    const Tensor weights = shown.made.all_weights();
    const Tensor local = matmul(weights, shown.made.v).contiguous();
    const bool other = shown.made.global_rows.defined();
    EXPECT_EQ(other, each.name == "longformer, global");
    const Tensor global = other ? matmul(weights, shown.made.global_v).contiguous() : local;
    for (int64_t i = 0; i < local.numel(); ++i) {
      const bool row = &shown.made.values_of(0, i / 8 % kLength) == &shown.made.global_v;
      ASSERT_NEAR((row ? global : local).data<float>()[i], plain.contiguous().data<float>()[i],
                  2e-6)
          << i;
      ASSERT_EQ(shown.made.output.contiguous().data<float>()[i],
                plain.contiguous().data<float>()[i]);
    }
    EXPECT_TRUE(validate_weights(weights).ok());
  }
}

TEST(ScorePatterns, APartIsTheBlockOfTheWhole) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    Shown shown;
    each.run();
    for (const int64_t head : {0, 1}) {
      const Tensor whole = shown.made.weights(0, head);
      for (const auto& [rows, keys] :
           std::vector<std::pair<std::array<int64_t, 2>, std::array<int64_t, 2>>>{
               {{0, 1}, {0, kLength}},
               {{17, 49}, {33, 80}},
               {{90, 96}, {0, 7}},
               {{5, 5}, {1, 2}}}) {
        const Tensor part = shown.made.weights(0, head, rows[0], rows[1], keys[0], keys[1]);
        for (int64_t r = rows[0]; r < rows[1]; ++r) {
          for (int64_t c = keys[0]; c < keys[1]; ++c) {
            ASSERT_NEAR(part.data<float>()[(r - rows[0]) * (keys[1] - keys[0]) + c - keys[0]],
                        whole.data<float>()[r * kLength + c], 1e-6);
          }
        }
      }
    }
  }
}

TEST(ScorePatterns, WhatAnObserverCutsIsGoneFromTheResult) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    const Tensor before = each.run().contiguous();
    Shown shown(true);
    const Tensor after = each.run().contiguous();
    EXPECT_EQ(shown.made.weights(0, 0, 40, 41, 41, 42).item(), 0.0);
    double moved = 0, others = 0;
    for (int64_t i = 0; i < before.numel(); ++i) {
      const double change = std::abs(after.data<float>()[i] - before.data<float>()[i]);
      (i / 8 % kLength == 40 ? moved : others) += change;
    }
    const bool seen = each.name != "performer, causal";  // whose query 40 looks at no later key
    EXPECT_EQ(moved > 1e-4, seen) << moved;
    EXPECT_LT(others, 1e-3);
    const AttentionSteps steps = [&] {
      RecordedAttention recorded;
      recorded.record = shown.made;
      return recorded.steps(0, 1);
    }();
    const Tensor weights = shown.made.weights(0, 1);
    for (int64_t i = 0; i < weights.numel(); ++i) {
      ASSERT_NEAR(steps.weights.contiguous().data<float>()[i], weights.data<float>()[i], 2e-6);
    }
  }
}

}  // namespace
}  // namespace heed::test
