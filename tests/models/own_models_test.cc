#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "heed/models.h"
#include "heed/runtime.h"
#include "models/cases.h"
#include "support/error.h"

namespace heed::test {
namespace {

constexpr const char* kEncoder =
    R"("vocab_size": 17, "d_model": 12, "encoder_layers": 2, "encoder_attention_heads": 3,
       "encoder_ffn_dim": 20, "max_position_embeddings": 9, "dropout": 0.0)";
constexpr const char* kDecoder =
    R"("decoder_layers": 2, "decoder_attention_heads": 2, "decoder_ffn_dim": 16)";

struct Own {
  std::string name;
  std::string config;
  ModelInput input;
};
void PrintTo(const Own& own, std::ostream* out) { *out << own.name; }

Tensor ids(int64_t batch, int64_t length, int64_t vocabulary, uint64_t seed) {
  return random_indices({batch, length}, vocabulary, seed);
}

/// Three rows of 7, 7 and 5 positions.
Tensor mask() {
  std::vector<int64_t> values(21, 1);
  values[19] = values[20] = 0;
  return Tensor::from(values, {3, 7});
}

std::vector<Own> cases() {
  std::vector<Own> all;
  auto add = [&](const std::string& name, const std::string& config) -> ModelInput& {
    all.push_back({name, "{" + config + "}", {}});
    return all.back().input;
  };
  auto text = [&](ModelInput& input) -> ModelInput& {
    input.input_ids = ids(3, 7, 17, 1);
    input.attention_mask = mask();
    return input;
  };
  const std::string encoder = kEncoder;
  const std::string decoder = kDecoder;
  text(add("encoder_mlm", R"("model_type": "heed-encoder", "head": "mlm", )" + encoder)).labels =
      ids(3, 7, 17, 2);
  text(add("encoder_lm", R"("model_type": "heed-encoder", "head": "lm",
                            "tie_word_embeddings": false, )" +
                             encoder))
      .labels = ids(3, 7, 17, 2);
  text(add("sentiment", R"("model_type": "heed-sentiment", )" + encoder)).labels =
      Tensor::from<int64_t>({0, 1, 2}, {3});
  for (const std::string readout : {"attention", "classifier"}) {
    ModelInput& input = text(add("reader_" + readout, R"("model_type": "heed-reader",
        "num_labels": 4, "readout": ")" + readout + "\", " +
                                                          encoder));
    input.token_type_ids = Tensor::zeros({3, 7}, DType::i64);
    for (const int64_t place : {3, 7 + 6, 14 + 4}) {
      input.token_type_ids.data<int64_t>()[place] = 1;
    }
    input.labels = Tensor::from<int64_t>({1, 0, 2}, {3});
  }
  ModelInput& translate =
      text(add("seq2seq", R"("model_type": "heed-seq2seq", "tie_word_embeddings": true, )" +
                              encoder + ", " + decoder));
  translate.decoder_input_ids = ids(3, 5, 17, 3);
  translate.labels = ids(3, 5, 17, 4);
  for (const std::string score :
       {"bahdanau", "concat", "luong-dot", "luong-general", "luong-concat"}) {
    std::string name = "rnn_" + score;
    std::replace(name.begin(), name.end(), '-', '_');
    ModelInput& input = text(add(name, R"("model_type": "heed-rnn-seq2seq", "vocab_size": 17,
        "d_model": 6, "hidden_size": 8, "attention_size": 5, "attention": ")" +
                                           score + "\""));
    input.labels = ids(3, 5, 17, 4);
  }
  ModelInput& caption = add("captioner", R"("model_type": "heed-captioner", "vocab_size": 17,
      "d_model": 12, "feature_size": 10, "dropout": 0.0, )" +
                                             decoder);
  caption.features = random_normal({3, 4, 10});
  caption.labels = ids(3, 5, 17, 4);
  ModelInput& regress = add("regressor", R"("model_type": "heed-regressor", "input_size": 2, )" +
                                             encoder + ", " + decoder);
  regress.features = random_normal({3, 7, 2});
  regress.attention_mask = mask();
  regress.labels = random_normal({3, 5, 1}, DType::f32, 9);
  return all;
}

class OwnModel : public testing::TestWithParam<Own> {};

TEST_P(OwnModel, EveryParameterHasAGradientAndTheLossFalls) {
  const auto model = create_model(GetParam().config, 7);
  ModelInput input = GetParam().input;
  input.training = true;
  constexpr int kSteps = 30;
  const double rate = model->kind() == ModelKind::regressor ? 0.02 : 0.2;
  double first = 0.0;
  double last = 0.0;
  for (int step = 0; step < kSteps; ++step) {
    const Tensor loss = model->forward(input).loss;
    last = loss.item();
    first = step == 0 ? last : first;
    backward(loss);
    for (const Parameter& parameter : model->parameters()) {
      const Tensor gradient = parameter.tensor.grad();
      ASSERT_TRUE(gradient.defined()) << parameter.name;
      Tensor value = parameter.tensor;
      const NoGrad no_grad;
      value.copy_from(sub(value.detach(), mul(gradient, rate)));
      value.set_grad({});
    }
  }
  EXPECT_LT(last, 0.9 * first);
}

TEST_P(OwnModel, IsTheSameAfterSavingAndLoading) {
  const auto model = create_model(GetParam().config, 7);
  const TemporaryFolder folder;
  save_model(*model, folder.path());
  const auto again = load_model(folder.path());
  const NoGrad no_grad;
  const ModelOutput expected = model->forward(GetParam().input);
  const ModelOutput actual = again->forward(GetParam().input);
  expect_same_bits(actual.logits, expected.logits, "logits");
  expect_same_bits(actual.loss, expected.loss, "loss");
  EXPECT_EQ(again->parameter_count(), model->parameter_count());
}

TEST_P(OwnModel, RecomputesTheSameGradients) {
  std::vector<Tensor> expected;
  for (const bool recompute : {false, true}) {
    const auto model = create_model(GetParam().config, 7);
    model->set_gradient_checkpointing(recompute);
    backward(model->forward(GetParam().input).loss);
    size_t index = 0;
    for (const Parameter& parameter : model->parameters()) {
      if (recompute) {
        expect_same_bits(parameter.tensor.grad(), expected[index++], parameter.name);
      } else {
        expected.push_back(parameter.tensor.grad());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, OwnModel, testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.name; });

/// Keeps the weights of attentions by hook name.
class Watcher final : public Observer {
 public:
  void attention(const std::string& name, const AttentionRecord& record) override {
    weights[name] = record.all_weights();
  }
  TensorMap weights;
};

Own own(const std::string& name) {
  static const std::vector<Own> all = cases();
  return *std::find_if(all.begin(), all.end(), [&](const Own& each) { return each.name == name; });
}

TEST(Reader, ItsWeightsAreTheAnswer) {
  const Own given = own("reader_attention");
  const auto model = create_model(given.config, 7);
  Watcher watcher;
  const ModelOutput output = model->forward(given.input);
  const Tensor weights = watcher.weights.at("readout.attn");
  expect_close(reshape(weights, {3, 7}), softmax(output.logits.detach()), elementwise(DType::f32),
               "weights");
  double loss = 0.0;
  for (int64_t b = 0; b < 3; ++b) {
    const int64_t gold = given.input.labels.data<int64_t>()[b];
    loss -= std::log(weights.to_doubles()[static_cast<size_t>(b * 7 + gold)]) / 3.0;
  }
  EXPECT_NEAR(output.loss.item(), loss, 1e-5);
  // Neither the query itself nor padding gets weight.
  EXPECT_EQ(weights.to_doubles()[3], 0.0);
  EXPECT_EQ(weights.to_doubles()[2 * 7 + 6], 0.0);
}

TEST(Reader, MarksOfSeveralGoldPlacesAddUp) {
  const Own given = own("reader_attention");
  const auto model = create_model(given.config, 7);
  ModelInput input = given.input;
  const double single = model->forward(input).loss.item();
  Tensor marks = Tensor::zeros({3, 7}, DType::i64);
  for (const int64_t place : {1, 7 + 0, 14 + 2}) {
    marks.data<int64_t>()[place] = 1;
  }
  input.labels = marks;
  EXPECT_NEAR(model->forward(input).loss.item(), single, 1e-5);
  marks.data<int64_t>()[5] = 1;
  EXPECT_LT(model->forward(input).loss.item(), single);
}

TEST(Reader, NeedsOneQueryASentence) {
  const Own given = own("reader_attention");
  const auto model = create_model(given.config, 7);
  ModelInput input = given.input;
  input.token_type_ids = input.token_type_ids.clone();
  input.token_type_ids.data<int64_t>()[0] = 1;
  EXPECT_ERROR(model->forward(input), "forward: token_type_ids marks two queries in sequence 0");
  input.token_type_ids = Tensor::zeros({3, 7}, DType::i64);
  EXPECT_ERROR(model->forward(input), "forward: token_type_ids marks no query in sequence 0");
  input.token_type_ids = {};
  EXPECT_ERROR(
      model->forward(input),
      "forward: heed-reader needs token_type_ids of the shape of input_ids, 1 at the query");
}

TEST(RnnSeq2Seq, ShowsItsWeightsAsTheReferenceHasThem) {
  Case given = load_case("training/rnn_seq2seq");
  const TensorMap expected = load_safetensors(golden("training/rnn_seq2seq/outputs.safetensors"));
  const TensorMap actual =
      run_forward(*given.model, given.input, {.hidden_states = false, .attentions = true});
  for (const char* name : {"loss", "logits", "encoder_last_hidden_state", "cross_attentions.0"}) {
    ASSERT_TRUE(actual.contains(name)) << name;
    expect_norm_close(actual.at(name), expected.at(name), kModel, name);
  }
}

TEST(Seq2Seq, GivesTheReferenceOutputs) {
  Case given = load_case("training/seq2seq");
  const TensorMap expected = load_safetensors(golden("training/seq2seq/outputs.safetensors"));
  const TensorMap actual =
      run_forward(*given.model, given.input, {.hidden_states = false, .attentions = true});
  const Tensor real = given.input.attention_mask.to(DType::f32);
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name;
    // At padded positions of the encoder the reference holds what no one reads.
    const bool encoder = name.starts_with("encoder");
    const auto seen = [&real, encoder](const Tensor& x) {
      if (!encoder) {
        return x;
      }
      return mul(x, reshape(real, x.rank() == 4 ? Shape{real.size(0), 1, real.size(1), 1}
                                                : Shape{real.size(0), real.size(1), 1}));
    };
    expect_norm_close(seen(actual.at(name)), seen(tensor), kModel, name);
  }
}

TEST(Regressor, LossLooksAtRealPlacesOnly) {
  const Own given = own("regressor");
  const auto model = create_model(given.config, 7);
  ModelInput input = given.input;
  input.decoder_features = random_normal({3, 5, 1}, DType::f32, 4);
  input.decoder_attention_mask = Tensor::full({3, 5}, 1, DType::i64);
  input.decoder_attention_mask.data<int64_t>()[14] = 0;
  const double before = model->forward(input).loss.item();
  input.labels = input.labels.clone();
  input.labels.data<float>()[14] += 100.0f;
  EXPECT_EQ(model->forward(input).loss.item(), before);
  input.labels.data<float>()[13] += 100.0f;
  EXPECT_GT(model->forward(input).loss.item(), before);
}

TEST(OwnModels, RefuseNonsense) {
  auto expect_refused = [](const std::string& config, const std::string& what) {
    try {
      create_model("{" + config + "}", 1);
      ADD_FAILURE() << config;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  };
  const std::string encoder = kEncoder;
  expect_refused(R"("model_type": "heed-encoder", "head": "tail", )" + encoder, "tail");
  expect_refused(R"("model_type": "heed-reader", "readout": "loud", )" + encoder, "loud");
  expect_refused(R"("model_type": "heed-rnn-seq2seq", "attention": "none", "vocab_size": 5,
                    "d_model": 4, "hidden_size": 4)",
                 "luong-dot");
  expect_refused(R"("model_type": "heed-sentiment", "vocab_size": 5, "d_model": 7,
                    "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 4,
                    "max_position_embeddings": 4)",
                 "not divisible");
}

/// Sizes that no memory holds are refused before anything is allocated.
TEST(OwnModels, RefuseWhatDoesNotFit) {
  const std::vector<std::string> configs = {
      R"("model_type": "vit", "hidden_size": 16777216, "num_hidden_layers": 1,
         "num_attention_heads": 1, "num_channels": 16777216, "intermediate_size": 4,
         "patch_size": 16777216, "image_size": 16777216)",
      R"("model_type": "bert", "hidden_size": 4096, "num_hidden_layers": 1,
         "num_attention_heads": 1, "intermediate_size": 4, "max_position_embeddings": 4,
         "vocab_size": 5, "type_vocab_size": 16777216)",
      R"("model_type": "heed-sentiment", "num_labels": 16777216, "vocab_size": 5,
         "d_model": 4096, "encoder_layers": 1, "encoder_attention_heads": 2,
         "encoder_ffn_dim": 4, "max_position_embeddings": 4)",
      R"("model_type": "t5", "d_model": 4, "d_ff": 4, "num_layers": 1, "vocab_size": 5,
         "num_heads": 65536, "d_kv": 1, "relative_attention_num_buckets": 16777216,
         "relative_attention_max_distance": 16777216)",
  };
  for (const std::string& config : configs) {
    try {
      create_model("{" + config + "}", 1);
      ADD_FAILURE() << config;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("memory"), std::string::npos) << error.what();
    }
  }
}

/// The tables of positions hold what was reached, not what the configuration allows.
TEST(OwnModels, AFarContextCostsNothing) {
  const auto model = create_model(
      R"({"model_type": "heed-captioner", "vocab_size": 7, "d_model": 1024, "feature_size": 3,
          "decoder_layers": 1, "decoder_attention_heads": 1, "decoder_ffn_dim": 4,
          "max_position_embeddings": 16777216})",
      1);
  ModelInput input;
  input.features = random_normal({1, 2, 3});
  input.decoder_input_ids = random_indices({1, 100}, 7);
  EXPECT_EQ(model->forward(input).logits.size(1), 100);
}

TEST(OwnModels, RefuseInputsTheyDoNotRead) {
  const Own given = own("sentiment");
  const auto model = create_model(given.config, 7);
  ModelInput input = given.input;
  input.pixel_values = Tensor::zeros({1, 3, 4, 4});
  EXPECT_ERROR(model->forward(input), "forward: heed-sentiment takes no pixel_values");
  input = given.input;
  input.input_ids = ids(3, 10, 17, 1);
  input.attention_mask = {};
  EXPECT_ERROR(
      model->forward(input),
      "forward: 10 tokens are more than the model's context of 9");  // longer than
                                                                     // max_position_embeddings
}

/// The tutorial's SimpleTransformer at its sizes: no biases in attention, a norm at the end.
TEST(SimpleTransformer, HasTheTutorialsParameters) {
  const std::string sizes = R"("model_type": "heed-encoder", "vocab_size": 10000, "d_model": 512,
      "encoder_layers": 6, "encoder_attention_heads": 8, "encoder_ffn_dim": 2048,
      "max_position_embeddings": 5000)";
  EXPECT_EQ(create_model("{" + sizes + R"(, "attention_bias": false, "final_norm": true})", 1)
                ->parameter_count(),
            26'583'040);
  EXPECT_EQ(create_model("{" + sizes + "}", 1)->parameter_count(), 26'594'304);
}

/// What `heed train` makes afresh: the tutorial's encoder, and its sentiment head of 128, ReLU,
/// dropout and three classes.
TEST(SimpleTransformer, IsMadeAfreshAsInTheTutorial) {
  FreshSizes sizes;
  sizes.vocab_size = 50;
  sizes.task = "classify";
  const ModelSpec* spec = find_model_spec("heed-sentiment");
  ASSERT_NE(spec, nullptr);
  const auto model = create_model(spec->fresh_config(sizes).set("num_labels", 3).dump(), 1);
  std::map<std::string, Shape> shapes;
  for (const Parameter& each : model->parameters()) {
    shapes.emplace(each.name, each.tensor.shape());
  }
  EXPECT_EQ(shapes.at("classifier.dense.weight"), Shape({128, 128}));
  EXPECT_EQ(shapes.at("classifier.out_proj.weight"), Shape({3, 128}));
  EXPECT_TRUE(shapes.contains("layer_norm.weight"));
  EXPECT_FALSE(shapes.contains("layers.0.self_attn.q_proj.bias"));
}

}  // namespace
}  // namespace heed::test
