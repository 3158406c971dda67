#include "heed/transformer.h"

#include <gtest/gtest.h>

#include "heed/inspect.h"
#include "heed/runtime.h"
#include "heed/tensor.h"
#include "heed/train.h"
#include "support/check.h"
#include "support/data.h"

namespace heed::test {
namespace {

/// A reference file: the layer's own parameters as a scope, and the other tensors.
struct Reference {
  explicit Reference(const std::string& name, bool trainable = false)
      : tensors(load_safetensors(golden("transformer/" + name + ".safetensors"))),
        scope(Scope::loaded(state(), name, trainable)) {}

  TensorMap state() const {
    TensorMap result;
    for (const auto& [name, tensor] : tensors) {
      if (name.starts_with("state.")) {
        result.emplace(name.substr(6), tensor);
      }
    }
    return result;
  }
  const Tensor& operator[](const std::string& name) const { return tensors.at(name); }

  TensorMap tensors;
  Scope scope;
};

TEST(MultiHeadAttention, OfTorchWithItsWeights) {
  const Reference reference("attention");
  const MultiHeadAttention attention(reference.scope, {.embed_dim = 12, .num_heads = 3});
  reference.scope.finish();
  const AttentionOutput result =
      attention(reference["x"], reference["memory"], reference["memory"], {.need_weights = true});
  expect_norm_close(result.output, reference["output"], 1e-6);
  expect_norm_close(result.weights, reference["weights"], 1e-6);
  EXPECT_FALSE(attention(reference["x"], reference["x"], reference["x"]).weights.defined());
}

TEST(MultiHeadAttention, FollowsMasksAndReportsToObservers) {
  const Scope scope = Scope::fresh(3);
  const MultiHeadAttention attention(scope, {.embed_dim = 8, .num_heads = 2});
  const Tensor x = random_normal({2, 4, 8});
  const Tensor mask =
      Tensor::from<uint8_t>({1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1}, {4, 4});
  const MultiHeadAttention causal(Scope::fresh(3),
                                  {.embed_dim = 8, .num_heads = 2, .causal = true});
  const Recorder recorder;
  const AttentionOutput masked = attention(x, x, x, {.mask = mask, .need_weights = true});
  expect_close(masked.output, causal(x, x, x).output, elementwise(DType::f32));
  EXPECT_EQ(masked.weights.index({0, 0, 0, Slice{1, {}}}).to_doubles(),
            (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(recorder.attentions().size(), 2u);
}

TEST(Transformer, OfTorchBeforeAndAfterTheResidual) {
  for (const bool pre_norm : {true, false}) {
    const Reference reference(pre_norm ? "encoder_pre_norm" : "encoder_post_norm");
    const TransformerEncoder encoder(reference.scope, {.num_layers = 2,
                                                       .hidden_size = 12,
                                                       .num_heads = 3,
                                                       .intermediate_size = 20,
                                                       .pre_norm = pre_norm});
    reference.scope.finish();
    const Tensor y = encoder(reference["x"], {.key_padding = reference["padding"]});
    const Tensor real = unsqueeze(reference["padding"].to(DType::f32), 2);
    expect_norm_close(mul(y, real), reference["output"], 1e-6);
  }
}

TEST(Transformer, DecoderOfTorch) {
  const Reference reference("decoder");
  const TransformerDecoder decoder(reference.scope, {.num_layers = 2,
                                                     .hidden_size = 12,
                                                     .num_heads = 3,
                                                     .intermediate_size = 20,
                                                     .activation = Activation::relu});
  reference.scope.finish();
  expect_norm_close(decoder(reference["x"], reference["memory"]), reference["output"], 1e-6);
}

TEST(Transformer, ABlockIsOneLayerOfTheStack) {
  const TransformerOptions options{
      .num_layers = 1, .hidden_size = 8, .num_heads = 2, .causal = true, .final_norm = false};
  const Scope scope = Scope::fresh(5);
  const Transformer stack(scope, options);
  const TransformerBlock block(Scope::loaded(scope.tensors(), "stack", false) / "layers" / 0,
                               options);
  const Tensor x = random_normal({2, 3, 8});
  expect_same_bits(block(x), stack(x));
}

TEST(Transformer, AMaskIsTheCausalOneWhereItSaysTheSame) {
  const TransformerOptions options{.num_layers = 2, .hidden_size = 8, .num_heads = 2};
  const Scope scope = Scope::fresh(5);
  const Transformer free(scope, options);
  TransformerOptions causal = options;
  causal.causal = true;
  const Transformer masked(Scope::loaded(scope.tensors(), "stack", false), causal);
  const Tensor x = random_normal({2, 4, 8});
  const Tensor position = arange(4);
  const Tensor seen = unsqueeze(position, 1) >= unsqueeze(position, 0);
  const Tensor added = masked_fill(zeros({4, 4}), ~seen, -INFINITY);
  expect_norm_close(free(x, {.mask = seen}), masked(x), 1e-6);
  expect_norm_close(free(x, {.mask = expand(seen, {2, 4, 4})}), masked(x), 1e-6);
  expect_norm_close(free(x, {.mask = added}), masked(x), 1e-6);
  try {
    free(x, {.mask = arange(4)});
    FAIL() << "a mask of one axis";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "Transformer: mask [4] must be broadcastable to [batch, heads, length, length]");
  }
}

TEST(Transformer, TrainsAndCheckpointsToTheSameGradients) {
  const TransformerOptions options{
      .num_layers = 2, .hidden_size = 8, .num_heads = 2, .cross_attention = true};
  std::vector<Tensor> gradients;
  for (const bool checkpointing : {false, true}) {
    const Scope scope = Scope::fresh(2);
    Transformer stack(scope, options);
    stack.set_gradient_checkpointing(checkpointing);
    const Tensor x = random_normal({2, 3, 8});
    backward(sum(stack(x, {.encoder_hidden_states = random_normal({2, 5, 8}, DType::f32, 9)})));
    for (const Parameter& each : scope.parameters()) {
      ASSERT_TRUE(each.tensor.grad().defined()) << each.name;
      gradients.push_back(each.tensor.grad());
    }
  }
  for (size_t i = 0; i < gradients.size() / 2; ++i) {
    expect_same_bits(gradients[i], gradients[i + gradients.size() / 2]);
  }
}

TEST(Transformer, ErrorsNameTheOptions) {
  const auto message = [](const TransformerOptions& options, const Shape& shape) -> std::string {
    try {
      Transformer(Scope::fresh(1), options)(Tensor::zeros(shape));
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message({.hidden_size = 9, .num_heads = 2}, {1, 1, 9}).find("num_heads 2"),
            std::string::npos);
  EXPECT_NE(message({.num_layers = 1, .hidden_size = 8, .num_heads = 2}, {1, 8})
                .find("[batch, length, hidden_size = 8]"),
            std::string::npos);
  EXPECT_NE(message({.num_layers = 1, .hidden_size = 8, .num_heads = 2, .cross_attention = true},
                    {1, 1, 8})
                .find("encoder_hidden_states"),
            std::string::npos);
}

}  // namespace
}  // namespace heed::test
