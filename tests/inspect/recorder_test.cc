#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "heed/inspect.h"
#include "heed/models.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "heed/tensor.h"
#include "io/json.h"
#include "support/check.h"
#include "support/data.h"
#include "support/error.h"

namespace heed {
namespace {

std::unique_ptr<Model> golden_model(const std::string& name) {
  return load_model(test::golden("models/" + name));
}

ModelInput golden_input(const std::string& name) {
  const TensorMap tensors =
      load_safetensors(test::golden("models/" + name + "/inputs.safetensors"));
  ModelInput input;
  const auto find = [&](const char* key) {
    const auto place = tensors.find(key);
    return place == tensors.end() ? Tensor() : place->second;
  };
  input.input_ids = find("input_ids");
  input.attention_mask = find("attention_mask");
  input.token_type_ids = find("token_type_ids");
  input.decoder_input_ids = find("decoder_input_ids");
  input.decoder_attention_mask = find("decoder_attention_mask");
  input.pixel_values = find("pixel_values");
  return input;
}

ModelInput short_input() {
  ModelInput input;
  input.input_ids = Tensor::from(std::vector<int64_t>{5, 17, 3, 9, 11, 2}, {1, 6});
  return input;
}

TEST(Places, AreParsed) {
  const AttentionPlace place = parse_place("encoder.blocks.12.attn");
  EXPECT_EQ(place.kind, "encoder");
  EXPECT_EQ(place.layer, 12);
  EXPECT_EQ(parse_place("blocks.3.attn").kind, "self");
  EXPECT_EQ(parse_place("decoder.blocks.0.cross_attn").kind, "cross");
  EXPECT_EQ(parse_place("decoder.blocks.1.attn").kind, "decoder");
  EXPECT_EQ(parse_place("readout.attn").kind, "readout");
}

// Every recorded weight against PyTorch's eager attention probabilities.
class RecorderGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(RecorderGolden, WeightsEqualPyTorchs) {
  const std::string name = GetParam();
  const NoGrad no_grad;
  const TensorMap expected =
      load_safetensors(test::golden("models/" + name + "/outputs.safetensors"));
  const auto model = golden_model(name);
  const ModelInput input = golden_input(name);
  Recorder recorder;
  model->forward(input);
  int64_t compared = 0;
  for (const RecordedAttention& attention : recorder.attentions()) {
    const std::string stack = attention.place.kind == "self" ? "" : attention.place.kind + "_";
    const auto place = expected.find(stack + "attentions." + std::to_string(attention.place.layer));
    ASSERT_NE(place, expected.end()) << attention.place.name;
    const Tensor all = attention.record.all_weights();
    ASSERT_EQ(all.shape(), place->second.shape());
    // A padded query's row is nobody's business: Hugging Face leaves it as it falls.
    const Tensor queries = attention.place.kind == "decoder" || attention.place.kind == "cross"
                               ? input.decoder_attention_mask
                               : input.attention_mask;
    Tensor mine = all.to(DType::f32), theirs = place->second.to(DType::f32);
    if (queries.defined()) {
      const Tensor real = reshape(queries, {queries.size(0), 1, queries.size(1), 1}).to(DType::f32);
      mine = mul(mine, real);
      theirs = mul(theirs, real);
    }
    test::expect_norm_close(mine, theirs, test::kModel, attention.place.name);
    ++compared;
  }
  EXPECT_GT(compared, 0);
}
INSTANTIATE_TEST_SUITE_P(Models, RecorderGolden,
                         ::testing::Values("gpt2_lm", "gpt2_unscaled", "gpt2_inverse_layer",
                                           "llama_gqa", "mistral_window", "bert_mlm",
                                           "bert_classify", "distilbert_base", "t5_relu",
                                           "t5_gated", "marian", "vit_classify", "vit_gpt2"));

TEST(Recorder, KeepsOnlyWhatIsAskedFor) {
  const NoGrad no_grad;
  const auto model = golden_model("gpt2_lm");
  Recorder recorder({.activations = {"blocks.*.hook_resid_post", "blocks.0.attn.hook_q"},
                     .attention = true,
                     .kind = "self",
                     .layer = 1,
                     .heads = {},
                     .no_causal = false,
                     .gradients = false});
  model->forward(short_input());
  ASSERT_EQ(recorder.attentions().size(), 1U);
  EXPECT_EQ(recorder.attentions()[0].place.name, "blocks.1.attn");
  EXPECT_EQ(recorder.activations().size(), static_cast<size_t>(model->num_layers()) + 1);
  EXPECT_EQ(recorder.activations().count("blocks.0.attn.hook_q"), 1U);
  EXPECT_ERROR(recorder.at("self", 0),
               "Recorder: no attention of kind 'self' in layer 0; there is self 1");
  EXPECT_ERROR(recorder.at("cross", 1),
               "Recorder: no attention of kind 'cross' in layer 1; there is self 1");
}

TEST(Recorder, TilesPoolAndRankLikeTheWholeMatrix) {
  // 300 queries go over several tiles.
  AttentionOptions options;
  options.position = Causal{};
  Recorder recorder;
  attention(test::random_normal({1, 2, 300, 8}, DType::f32, 1),
            test::random_normal({1, 2, 300, 8}, DType::f32, 2),
            test::random_normal({1, 2, 300, 8}, DType::f32, 3), options);
  const RecordedAttention& recorded = recorder.attentions().at(0);
  const Tensor all = recorded.record.weights(0, 1);
  const Tensor pooled = recorded.pooled(0, 1, 40, 30);
  ASSERT_EQ(pooled.shape(), Shape({40, 30}));
  for (int64_t r = 0; r < 40; ++r) {
    for (int64_t c = 0; c < 30; ++c) {
      float best = 0;
      for (int64_t i = r * 300 / 40; i < (r + 1) * 300 / 40; ++i) {
        for (int64_t j = c * 300 / 30; j < (c + 1) * 300 / 30; ++j) {
          best = std::max(best, all.data<float>()[i * 300 + j]);
        }
      }
      ASSERT_EQ(pooled.data<float>()[r * 30 + c], best);
    }
  }
  const auto [index, weight] = recorded.strongest(0, 1, 3);
  const auto expected = top_attended(all, 3);
  for (int64_t q = 0; q < 300; ++q) {
    for (size_t k = 0; k < expected[static_cast<size_t>(q)].size(); ++k) {
      const Attended& each = expected[static_cast<size_t>(q)][k];
      ASSERT_EQ(weight.data<float>()[q * 3 + static_cast<int64_t>(k)],
                static_cast<float>(each.weight));
      if (each.weight > 0) {
        ASSERT_EQ(index.data<int64_t>()[q * 3 + static_cast<int64_t>(k)], each.key);
      }
    }
  }
  const AttentionPatterns whole = attention_patterns(all), tiled = recorded.patterns(0, 1);
  EXPECT_NEAR(tiled.entropy, whole.entropy, 1e-9);
  EXPECT_NEAR(tiled.mean_distance, whole.mean_distance, 1e-7);
  EXPECT_NEAR(tiled.diagonal, whole.diagonal, 1e-9);
  EXPECT_ERROR(recorded.pooled(0, 2, 4, 4),
               "weights: sequence 0, head 2 of '', which has 1 sequences and 2 heads");
}

TEST(Recorder, ShowsEveryStepOfAHead) {
  const NoGrad no_grad;
  const auto model = golden_model("gpt2_lm");
  Recorder recorder;
  model->forward(short_input());
  const RecordedAttention& attention = recorder.at("self", 0);
  const AttentionSteps steps = attention.steps(0, 1);
  test::expect_close(reshape(steps.weights, {6, 6}), attention.record.weights(0, 1),
                     test::elementwise(DType::f32));
  EXPECT_EQ(steps.masked.to_doubles()[1], -INFINITY);
  double total = 0;
  for (const double share : attention.output_shares(0)) {
    total += share;
  }
  EXPECT_NEAR(total, 1.0, 1e-12);
}

TEST(Recorder, MutesHeads) {
  const NoGrad no_grad;
  const auto model = golden_model("gpt2_lm");
  const Tensor before = model->forward(short_input()).logits;
  RecorderOptions options;
  for (int64_t head = 0; head < model->num_heads(); ++head) {
    options.heads.push_back({0, head, 0.0, ""});
  }
  options.activations = {"blocks.0.attn.hook_z"};
  {
    Recorder recorder(options);
    const Tensor after = model->forward(short_input()).logits;
    for (const double value : recorder.activations().at("blocks.0.attn.hook_z").to_doubles()) {
      ASSERT_EQ(value, 0.0);
    }
    EXPECT_NE(after.to_doubles(), before.to_doubles());
  }
  options.heads = {{0, 0, 1.0, ""}};
  {
    Recorder recorder(options);
    test::expect_close(model->forward(short_input()).logits, before, test::elementwise(DType::f32));
  }
  options.heads = {{0, 999, 0.0, ""}};
  Recorder recorder(options);
  EXPECT_ERROR(model->forward(short_input()),
               "Recorder: head 999 of layer 0 does not exist; 'blocks.0.attn' has 3 heads");
}

TEST(Recorder, LiftsTheCausalMask) {
  const NoGrad no_grad;
  const auto model = golden_model("gpt2_lm");
  RecorderOptions options;
  options.no_causal = true;
  Recorder recorder(options);
  model->forward(short_input());
  const Tensor weights = recorder.at("self", 0).record.weights(0, 0);
  EXPECT_GT(weights.data<float>()[5], 0.0F);  // the first token sees the last
}

TEST(Recorder, GradientMapIsTheChangeOfTheResult) {
  const auto model = golden_model("gpt2_lm");
  RecorderOptions options;
  options.gradients = true;
  Recorder recorder(options);
  const Tensor logits = model->forward(short_input()).logits;
  const int64_t vocabulary = logits.size(2);
  backward(select(reshape(logits, {6 * vocabulary}), 0, 5 * vocabulary + 7));
  const RecordedAttention& attention = recorder.at("self", 0);
  const Tensor map = attention.gradient_map(0, 1);
  // Σ_j A_ij dP_ij is the gradient along the head's own output: what scaling the head changes.
  const std::vector<double> gradient = attention.probe.grad().to_doubles();  // [6, heads * width]
  const int64_t width = attention.record.v.size(3), heads = attention.heads();
  const std::vector<double> output = attention.record.output.to_doubles();  // [1, heads, 6, width]
  double from_map = 0, from_output = 0;
  for (const double value : map.to_doubles()) {
    from_map += value;
  }
  for (int64_t t = 0; t < 6; ++t) {
    for (int64_t d = 0; d < width; ++d) {
      from_output += gradient[static_cast<size_t>((t * heads + 1) * width + d)] *
                     output[static_cast<size_t>((6 + t) * width + d)];
    }
  }
  EXPECT_NE(from_output, 0.0);
  EXPECT_NEAR(from_map, from_output, 1e-5 * std::abs(from_output) + 1e-9);
}

TEST(Recorder, RolloutRowsSumToOne) {
  const NoGrad no_grad;
  const auto model = golden_model("gpt2_lm");
  Recorder recorder;
  model->forward(short_input());
  const std::vector<double> rollout = attention_rollout(recorder, "self").to_doubles();
  for (size_t i = 0; i < 6; ++i) {
    double total = 0;
    for (size_t j = 0; j < 6; ++j) {
      total += rollout[6 * i + j];
      EXPECT_TRUE(j <= i || rollout[6 * i + j] == 0.0);
    }
    EXPECT_NEAR(total, 1.0, 1e-6);
  }
  EXPECT_ERROR(attention_rollout(recorder, "cross"),
               "attention_rollout: no attention of kind 'cross' was recorded");
}

TEST(HeadTable, HasALineForEveryHead) {
  const NoGrad no_grad;
  const auto model = golden_model("gpt2_lm");
  Recorder recorder;
  model->forward(short_input());
  const std::vector<HeadSummary> table = head_table(recorder);
  ASSERT_EQ(table.size(), static_cast<size_t>(model->num_layers() * model->num_heads()));
  for (const HeadSummary& head : table) {
    EXPECT_GE(head.patterns.entropy, 0.0);
    EXPECT_FALSE(head.pattern.empty());
  }
}

TEST(Labels, ShowPiecesOfTheText) {
  const std::string text = "cat 학 sat";
  Encoding encoding;
  encoding.tokens = {"[CLS]", "cat", "Ġí", "ķ", "Ļ", "Ġsat", "##s"};
  encoding.offsets = {{0, 0}, {0, 3}, {3, 5}, {5, 6}, {6, 7}, {7, 11}, {9, 11}};
  encoding.type_ids.assign(7, 0);
  const std::vector<std::string> labels = token_labels(encoding, text);
  EXPECT_EQ(labels[0], "[CLS]");
  EXPECT_EQ(labels[1], "cat");
  EXPECT_EQ(labels[2], "학(1/3)");
  EXPECT_EQ(labels[3], "학(2/3)");
  EXPECT_EQ(labels[4], "학(3/3)");
  EXPECT_EQ(labels[5], "sat");
  EXPECT_EQ(labels[6], "##s");
}

TEST(Labels, ASpaceThatSentencePieceAddsIsNoPieceOfTheFirstCharacter) {
  Encoding encoding;
  encoding.tokens = {"▁", "<0xEA>", "<0xB3>", "<0xA0>", "▁", "a"};
  encoding.offsets = {{0, 3}, {0, 3}, {0, 3}, {0, 3}, {3, 4}, {4, 5}};
  encoding.type_ids.assign(6, 0);
  EXPECT_EQ(token_labels(encoding, "고 a"),
            (std::vector<std::string>{"␣", "고(1/3)", "고(2/3)", "고(3/3)", "␣", "a"}));
}

}  // namespace
}  // namespace heed
