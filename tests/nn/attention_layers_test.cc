#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "heed/io.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "heed/transformer.h"
#include "support/check.h"
#include "support/data.h"
#include "support/error.h"

namespace heed {
namespace {

using test::expect_close;
using test::random_normal;

constexpr test::Tolerance kClose{1.3e-6, 1e-5};

TensorMap golden_tensors(const std::string& name) {
  return load_safetensors(test::golden("attention_variants/" + name + ".safetensors"));
}

/// The weights of a golden file as a scope; what it holds beside them is ignored.
Scope golden_scope(const TensorMap& tensors) { return Scope::loaded(tensors, "golden", true); }

/// [B, H, T, D] -> [B, T, H·D]
Tensor joined(const Tensor& x) {
  return reshape(transpose(x, 1, 2), {x.size(0), x.size(2), x.size(1) * x.size(3)});
}

TEST(HeadLayers, AListOfHeadsEqualsTheFusedLayer) {
  for (const bool causal : {false, true}) {
    const HeadList list(Scope::fresh(1), 24, 3, causal);
    Tensor x = random_normal({2, 7, 24}, DType::f32, 2).set_requires_grad(true);
    const Tensor from_list = list(x);
    Pass pass;
    pass.layout = Layout::equal(2, 7);
    Tensor rows = reshape(x.detach(), {14, 24}).detach().set_requires_grad(true);
    const Tensor from_fused = list.fused()(rows, pass, 0);
    expect_close(from_fused, reshape(from_list, {14, 24}), kClose);
    const Tensor gradient = random_normal({2, 7, 24}, DType::f32, 3);
    backward(from_list, gradient);
    backward(from_fused, reshape(gradient, {14, 24}));
    expect_close(rows.grad(), reshape(x.grad(), {14, 24}), kClose);
  }
  EXPECT_ERROR(HeadList(Scope::fresh(1), 24, 5), "HeadList: 5 heads do not divide width 24");
  EXPECT_ERROR(MultiHeadAttention(Linear(), Linear(), MultiHeadAttention::Options()),
               "num_heads 1 and head_dim 0 must be at least 1");
}

TEST(HeadLayers, SingleHeadFollowsTheFormula) {
  SingleHeadAttention::Options options;
  options.causal = true;
  options.head_dim = 5;
  const Scope scope = Scope::fresh(3);
  const SingleHeadAttention layer(scope, 8, options);
  const Tensor x = random_normal({2, 6, 8}, DType::f32, 1);
  const Tensor early = layer(x);
  EXPECT_EQ(early.shape(), Shape({2, 6, 8}));
  // A causal layer's first rows do not know the later ones.
  expect_close(layer(slice(x, 1, 0, 3)), slice(early, 1, 0, 3), kClose);
  const Tensor memory = random_normal({2, 9, 8}, DType::f32, 2);
  EXPECT_EQ(layer(x, memory).shape(), Shape({2, 6, 8}));
  EXPECT_EQ(scope.parameters().size(), 8u);
  options.dropout = 0.5;
  const SingleHeadAttention dropping(Scope::fresh(3), 8, options);
  expect_close(dropping(x), early, kClose, "no dropout outside training");
  EXPECT_NE(dropping(x, {}, {}, true).to_doubles(), early.to_doubles());
}

TEST(HeadLayers, ScoredAttentionIsTheFunctions) {
  const Tensor query = random_normal({2, 4, 6}, DType::f32, 1);
  const Tensor memory = random_normal({2, 5, 6}, DType::f32, 2);
  const Tensor padding = Tensor::full({2, 5}, 1, DType::u8);
  padding.data<uint8_t>()[9] = 0;
  using Kind = ScoredAttention::Kind;
  for (const Kind kind : {Kind::additive, Kind::dot, Kind::general, Kind::concat}) {
    const Scope scope = Scope::fresh(5);
    const ScoredAttention layer(scope, kind, 6, 6, 3);
    const Tensor context = layer(query, memory, padding);
    EXPECT_EQ(context.shape(), Shape({2, 4, 6}));
    if (kind == Kind::dot) {
      EXPECT_TRUE(scope.parameters().empty());
      continue;
    }
    backward(context, Tensor::full(context.shape(), 1.0));
    for (const Parameter& parameter : scope.parameters()) {
      EXPECT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
    }
  }
  EXPECT_ERROR(ScoredAttention(Scope::fresh(5), Kind::dot, 6, 7, 3),
               "ScoredAttention: dot scores want one width, not 6 and 7");
}

TEST(SparseLayers, LongformerFromHiddenStates) {
  const TensorMap golden = golden_tensors("longformer");
  const LongformerSelfAttention layer(golden_scope(golden), 12, 3, 4);
  const Tensor out =
      layer(golden.at("hidden_states"), golden.at("global_mask"), golden.at("key_padding"));
  expect_close(out, joined(golden.at("output")), {1.3e-6, 2e-5});
}

/// A Longformer of 32 with 2 heads and sequences of 40 with 3, 20 and no global tokens: the first
/// few enough to be multiplied by the weights of keys and values themselves.
struct GlobalCase {
  Scope scope = Scope::fresh(9);
  LongformerSelfAttention layer{scope, 32, 2, 8};
  Tensor x = random_normal({3, 40, 32}, DType::f32, 1);
  Tensor global_mask = Tensor::zeros({3, 40}, DType::u8);
  Tensor key_padding = Tensor::full({3, 40}, 1, DType::u8);

  GlobalCase() {
    for (const int64_t at : {0, 7, 30}) {
      global_mask.data<uint8_t>()[at] = 1;
    }
    for (int64_t i = 0; i < 20; ++i) {
      global_mask.data<uint8_t>()[40 + 2 * i] = 1;
    }
    key_padding.data<uint8_t>()[39] = 0;
    uint64_t seed = 10;
    for (const Parameter& parameter : scope.parameters()) {  // biases, too, that are not zero
      const Tensor drawn = random_normal(parameter.tensor.shape(), DType::f32, ++seed) * 0.2;
      std::copy_n(drawn.data<float>(), drawn.numel(), parameter.tensor.data<float>());
    }
  }

  /// The same by projections of all tokens.
  Tensor projected() const {
    std::map<std::string, Tensor> by_name;
    for (const Parameter& parameter : scope.parameters()) {
      by_name[parameter.name] = parameter.tensor;
    }
    const auto heads = [&](const std::string& name) {
      const Tensor y = linear(x, by_name.at(name + ".weight"), by_name.at(name + ".bias"));
      return transpose(reshape(y, {3, 40, 2, 16}), 1, 2);
    };
    LongformerInputs in;
    in.q = heads("query");
    in.k = heads("key");
    in.v = heads("value");
    in.q_global = heads("query_global");
    in.k_global = heads("key_global");
    in.v_global = heads("value_global");
    in.global_mask = global_mask;
    in.key_padding = key_padding;
    in.window = 8;
    return joined(longformer_attention(in));
  }
};

TEST(SparseLayers, GlobalTokensOfLongformerGetWhatProjectionsOfAllTokensGive) {
  const GlobalCase c;
  Tensor x = c.x;
  x.set_requires_grad(true);
  const Tensor dy = random_normal({3, 40, 32}, DType::f32, 2);
  const auto gradients = [&](const Tensor& y) {
    backward(y, dy);
    std::map<std::string, Tensor> all{{"x", x.grad()}};
    x.set_grad({});
    for (const Parameter& parameter : c.scope.parameters()) {
      Tensor weight = parameter.tensor;
      all[parameter.name] = weight.grad();
      weight.set_grad({});
    }
    return all;
  };
  const Tensor expected = c.projected();
  const Tensor actual = c.layer(x, c.global_mask, c.key_padding);
  expect_close(actual, expected, {1e-5, 1e-4}, "output");
  const auto wanted = gradients(expected);
  for (const auto& [name, gradient] : gradients(actual)) {
    ASSERT_TRUE(gradient.defined()) << name;
    expect_close(gradient, wanted.at(name), {1e-4, 1e-3}, name);
  }
}

TEST(SparseLayers, LongformerDoesNotDependOnTheRestOfTheBatch) {
  const NoGrad no_grad;
  const GlobalCase c;
  const Tensor all = c.layer(c.x, c.global_mask, c.key_padding);
  for (const int64_t b : {0, 1}) {
    const auto alone = [&](const Tensor& t) { return slice(t, 0, b, b + 1).contiguous(); };
    const Tensor one = c.layer(alone(c.x), alone(c.global_mask), alone(c.key_padding));
    test::expect_same_bits(one, alone(all), "a sequence alone");
  }
}

TEST(SparseLayers, BigBirdFromHiddenStates) {
  const TensorMap golden = golden_tensors("bigbird_hf_eval");
  BigBirdSelfAttention::Options options;
  options.num_heads = 3;
  options.block_size = 4;
  options.random_blocks = 2;
  options.hf_compat = true;
  const BigBirdSelfAttention layer(golden_scope(golden), 12, options);
  const Tensor x = golden.at("hidden_states");
  expect_close(layer(x, golden.at("key_padding")), joined(golden.at("output")), {1.3e-6, 2e-5});
  // A length that is no multiple of the block is padded.
  EXPECT_EQ(layer(slice(x, 1, 0, 43)).shape(), Shape({2, 43, 12}));
  EXPECT_EQ(layer(slice(x, 1, 0, 5)).shape(), Shape({2, 5, 12}));
}

TEST(SparseLayers, PerformerTrains) {
  const Scope scope = Scope::fresh(2);
  const PerformerSelfAttention layer(scope, 8, 2, 16, true, 7);
  const Tensor out = layer(random_normal({2, 20, 8}, DType::f32, 1));
  EXPECT_EQ(out.shape(), Shape({2, 20, 8}));
  backward(out, Tensor::full(out.shape(), 1.0));
  EXPECT_EQ(scope.parameters().size(), 8u) << "the projection is no parameter";
  EXPECT_TRUE(scope.parameters().front().tensor.grad().defined());
}

TEST(SwinLayer, IsHuggingFaces) {
  for (const auto& [name, height, width, shift] : {std::tuple{"swin_layer_shift0_8x12", 8, 12, 0},
                                                   {"swin_layer_shift0_7x6", 7, 6, 0},
                                                   {"swin_layer_shift2_8x12", 8, 12, 2},
                                                   {"swin_layer_shift2_7x6", 7, 6, 2}}) {
    const TensorMap golden = golden_tensors(name);
    SwinLayer::Options options;
    options.num_heads = 3;
    options.window = 4;
    options.shift = shift;
    options.mlp_ratio = 2.0;
    const SwinLayer layer(golden_scope(golden), 12, options);
    const Tensor out = layer(golden.at("hidden_states"), height, width);
    expect_close(out, golden.at("output"), {1e-5, 2e-5}, name);  // the reference is f32 too
  }
}

/// Asks for the weights of sparse attention as one matrix.
class WholeMaps final : public Observer {
 public:
  bool wants(const std::string& name) override { return name.ends_with("_map"); }
  void attention(const std::string&, const AttentionRecord& record) override {
    maps.push_back(record.all_weights());
  }
  std::vector<Tensor> maps;
};

void expect_rows_sum_to_one(const Tensor& map) {
  for (const double row : sum(map, -1).to_doubles()) {
    EXPECT_NEAR(row, 1.0, 1e-5);
  }
}

TEST(WholeMaps, OfSwinGiveTheSameRows) {
  const NoGrad no_grad;
  const TensorMap golden = golden_tensors("swin_layer_shift2_8x12");
  SwinLayer::Options options;
  options.num_heads = 3;
  options.window = 4;
  options.shift = 2;
  options.mlp_ratio = 2.0;
  const SwinLayer layer(golden_scope(golden), 12, options);
  WholeMaps observer;
  const Tensor out = layer(golden.at("hidden_states"), 8, 12);
  expect_close(out, golden.at("output"), {1e-5, 2e-5}, "output");
  ASSERT_EQ(observer.maps.size(), 1u);
  EXPECT_EQ(observer.maps[0].shape(), Shape({out.size(0), 3, 96, 96}));
  expect_rows_sum_to_one(observer.maps[0]);
}

TEST(WholeMaps, OfLongformerGiveTheSameRows) {
  const NoGrad no_grad;
  LongformerInputs in;
  in.q = random_normal({2, 2, 12, 4}, DType::f32, 1);
  in.k = random_normal({2, 2, 12, 4}, DType::f32, 2);
  in.v = random_normal({2, 2, 12, 4}, DType::f32, 3);
  in.q_global = random_normal({2, 2, 12, 4}, DType::f32, 4);
  in.k_global = random_normal({2, 2, 12, 4}, DType::f32, 5);
  in.v_global = random_normal({2, 2, 12, 4}, DType::f32, 6);
  in.global_mask = Tensor::zeros({2, 12}, DType::u8);
  in.global_mask.data<uint8_t>()[3] = in.global_mask.data<uint8_t>()[12] = 1;
  in.window = 4;
  const Tensor expected = longformer_attention(in);
  WholeMaps observer;
  expect_close(longformer_attention(in), expected, {1e-5, 1e-5}, "output");
  ASSERT_EQ(observer.maps.size(), 1u);
  EXPECT_EQ(observer.maps[0].shape(), Shape({2, 2, 12, 12}));
  expect_rows_sum_to_one(observer.maps[0]);
}

}  // namespace
}  // namespace heed
