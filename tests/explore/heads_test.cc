// What the explorer shows of models with answers or inputs of their own kind: documents, features
// of regions, stretches of a text, pairs of logits, grids.
#include <gtest/gtest.h>

#include <set>

#include "explore/family_page.h"

namespace heed::test {
namespace {

class Rag : public testing::TestWithParam<const char*> {};

TEST_P(Rag, ReadsADocumentBesideTheQuestion) {
  const auto path = golden(std::string("retrieval/") + GetParam());
  Page page(load_model(path), path);
  EXPECT_EQ(page.about->string("family"), "encoder-decoder");
  EXPECT_EQ(page.about->string("answers"), "target-token");
  EXPECT_TRUE(page.about->at("inputs").boolean("pair"));
  check_family(page);
  const size_t alone = page.trace->at("sides").at("source").size();
  page.trace = page.post("traces", R"({"model":"m","text":"abc","pair":"defg","target":"ab"})");
  page.at = "traces/" + page.trace->string("id");
  // The document, what config.json puts behind it, and the question.
  EXPECT_EQ(page.trace->at("sides").at("source").size(), 4U + 4U + 3U);
  EXPECT_NE(alone, 11U);
  // The numbers are the model's own.
  ModelInput input;
  input.context_input_ids =
      Tensor::from(page.model_.tokenizer.encode("defg // abc").ids, {1, 11}).to(DType::i64);
  input.doc_scores = Tensor::zeros({1, 1});
  std::vector<TokenId> ids;
  for (const Json& token : page.trace->at("sides").at("target").elements()) {
    ids.push_back(token.integer("id", 0, 1000));
  }
  input.decoder_input_ids = Tensor::from(ids, {1, static_cast<int64_t>(ids.size())});
  const Tensor logits = page.model_.model->forward(input).logits;
  const std::vector<double> wanted =
      slice(slice(logits, 0, 0, 1), 1, logits.size(1) - 1, logits.size(1)).to_doubles();
  const Json best = page.trace->at("prediction").at("candidates")[0];
  EXPECT_NEAR(best.at("logit").number(), wanted[static_cast<size_t>(best.integer("id", 0, 9999))],
              1e-5);
  check_answers(page);
}

INSTANTIATE_TEST_SUITE_P(Readers, Rag,
                         testing::Values("rag_token_bart", "rag_token_t5", "rag_sequence_bart",
                                         "rag_sequence_t5"));

TEST(Captioner, ReadsFeaturesOfRegions) {
  Page page(create_model(small_config("heed-captioner"), 5));
  EXPECT_TRUE(page.about->at("inputs").boolean("features"));
  EXPECT_FALSE(page.about->at("inputs").boolean("image"));
  const int64_t size = page.model_.model->config().integer_or("feature_size", 2048, 1, 1 << 20);
  const TemporaryFolder folder;
  const Tensor features = Tensor::full({3, size}, 0.5);
  features.data<float>()[1] = 2.0F;
  save_npy(folder.path() / "f.npy", features);
  save_safetensors(folder.path() / "f.safetensors", {{"features", features}});
  std::string first;
  for (const char* name : {"f.npy", "f.safetensors"}) {
    page.trace = page.post("traces", R"({"model":"m","target":"ab","features":")" +
                                         encode_base64(read_file(folder.path() / name)) + "\"}");
    page.at = "traces/" + page.trace->string("id");
    EXPECT_EQ(page.trace->at("sides").at("source").size(), 3U);
    EXPECT_EQ(page.trace->at("sides").at("source")[2].string("label"), "3");
    const std::string found = page.trace->at("prediction").dump();
    EXPECT_EQ(first.empty() ? found : first, found) << name;
    first = found;
  }
  check_answers(page);
  check_attentions(page);
  page.post("traces", R"({"model":"m","features":")" + encode_base64("no file") + "\"}", 400);
}

std::vector<float> floats(const Json& tensor) {
  const std::string bytes = decode_base64(tensor.string("data"), "tensor");
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(Longformer, AGlobalTokenReadsValuesOfItsOwn) {
  const auto path = golden("models/longformer_classify");
  Page page(load_model(path), path);
  page.open("abcabdefghabcabd");
  const Json head = page.post(page.at + "/head", R"({"kind":"self","layer":1,"head":2,)"
                                                 R"("queries":[0,16],"keys":[0,16]})");
  const std::vector<float> weights =
      floats(page.post(page.at + "/tile", R"({"kind":"self","layer":1,"head":2,"what":"weights",)"
                                          R"("level":0,"row":0,"column":0})")
                 .at("values"));
  const std::string rows = decode_base64(head.at("global").at("rows").string("data"), "rows");
  ASSERT_EQ(rows, std::string("\1", 1) + std::string(15, '\0'));  // the token that is classified
  const std::vector<float> z = floats(head.at("z"));
  const size_t width = z.size() / 16;
  double others = 0;
  for (size_t query = 0; query < 16; ++query) {
    const std::vector<float> own = floats(query == 0 ? head.at("global").at("v") : head.at("v"));
    const std::vector<float> local = floats(head.at("v"));
    for (size_t i = 0; i < width; ++i) {
      double sum = 0, other = 0;
      for (size_t key = 0; key < 16; ++key) {
        sum += weights[query * 16 + key] * own[key * width + i];
        other += weights[query * 16 + key] * local[key * width + i];
      }
      EXPECT_NEAR(sum, z[query * width + i], 1e-6) << query;
      others += query == 0 ? std::abs(other - z[i]) : 0.0;
    }
  }
  EXPECT_GT(others, 1e-3);  // the others' values would give something else
}

TEST(AnswerSpan, CandidatesAreStretchesOfThePassage) {
  for (const char* name : {"bert_qa", "bart_qa", "led_qa"}) {
    const auto path = golden(std::string("models/") + name);
    Page page(load_model(path), path);
    EXPECT_EQ(page.about->string("answers"), "answer-span") << name;
    page.trace = page.post("traces", R"({"model":"m","text":"abc","pair":"defg","top_k":3})");
    const Json candidates = page.trace->at("prediction").at("candidates");
    // By the model itself: characters have no special tokens between the texts.
    ModelInput input;
    input.input_ids = Tensor::from(page.model_.tokenizer.encode_pair("abc", "defg").ids, {1, 7});
    if (reads_token_types(*page.model_.model)) {
      input.token_type_ids = Tensor::from(std::vector<int64_t>{0, 0, 0, 1, 1, 1, 1}, {1, 7});
    }
    const ModelOutput output = page.model_.model->forward(input);
    const auto start = output.start_logits.to_doubles(), end = output.end_logits.to_doubles();
    double total = 0, best = -1e300;
    for (size_t i = 3; i < 7; ++i) {
      for (size_t j = i; j < 7; ++j) {
        total += std::exp(start[i] + end[j]);
        best = std::max(best, start[i] + end[j]);
      }
    }
    for (size_t i = 0; i < 3; ++i) {
      const auto span = candidates[i].at("span").integers(0, 6);
      const double logit = start[static_cast<size_t>(span[0])] + end[static_cast<size_t>(span[1])];
      EXPECT_GE(span[0], 3);
      EXPECT_NEAR(candidates[i].at("logit").number(), logit, 1e-6) << name;
      EXPECT_NEAR(candidates[i].at("probability").number(), std::exp(logit) / total, 1e-6);
      EXPECT_EQ(candidates[i].string("token"),
                std::string("abcdefg").substr(static_cast<size_t>(span[0]),
                                              static_cast<size_t>(span[1] - span[0] + 1)));
    }
    EXPECT_NEAR(candidates[0].at("logit").number(), best, 1e-6);
  }
}

TEST(Shifted, ADecoderThatReadsTheSourceShowsIt) {
  for (const char* name : {"bart_classify", "mbart_classify", "bart_base", "led_base"}) {
    const auto path = golden(std::string("models/") + name);
    Page page(load_model(path), path);
    page.open("abcabd");
    const Json source = page.trace->at("sides").at("source");
    const Json target = page.trace->at("sides").at("target");
    ASSERT_EQ(target.size(), source.size()) << name;
    for (size_t i = 1; i < target.size(); ++i) {
      EXPECT_EQ(target[i].integer("id", 0, 99), source[i - 1].integer("id", 0, 99)) << name;
    }
    EXPECT_FALSE(page.trace->boolean("generated"));
    EXPECT_EQ(page.about->string("answers"),
              std::string(name).ends_with("_base") ? "embedding" : "class");
  }
}

TEST(Discriminator, EachTokenIsOriginalOrReplaced) {
  const auto path = golden("models/electra_replaced");
  Page page(load_model(path), path);
  page.open("abcabd");
  ModelInput input;
  input.input_ids = Tensor::from(page.model_.tokenizer.encode("abcabd").ids, {1, 6});
  const std::vector<double> logits = page.model_.model->forward(input).logits.to_doubles();
  for (size_t i = 0; i < 6; ++i) {
    const Json found = page.post(page.at + "/predict", fmt::format(R"({{"position":{}}})", i));
    for (const Json& each : found.at("candidates").elements()) {
      const bool replaced = each.string("token") == "replaced";
      EXPECT_NEAR(each.at("probability").number(),
                  1 / (1 + std::exp(replaced ? -logits[i] : logits[i])), 1e-6);
    }
  }
}

TEST(LargeGrid, EveryStageIsShown) {
  // 66 x 66 = 4,356 patches, padded to 68 x 68; then 33 x 33, padded to 36 x 36.
  Page page(create_model(R"({"model_type":"swin","architectures":["SwinForImageClassification"],
      "image_size":132,"patch_size":2,"num_channels":1,"embed_dim":8,"depths":[1,2],
      "num_heads":[1,2],"window_size":4,"mlp_ratio":2.0,"num_labels":3})",
                         3));
  page.open("");
  ASSERT_EQ(page.trace->at("attentions").size(), 2U);
  EXPECT_EQ(page.trace->at("attentions")[0].string("kind"), "stage0");
  EXPECT_EQ(page.trace->at("attentions")[0].integer("queries", 1, 9999), 68 * 68);
  EXPECT_EQ(page.trace->at("sides").at("source").size(), 68U * 68U);
  check_answers(page);
  check_attentions(page);
  // A patch of the first row sees its window: four columns of each of four rows of the grid.
  const Json best = page.post(page.at + "/rows",
                              R"({"kind":"stage0","layer":0,"head":0,"queries":[5,6],"top_k":64})");
  const std::string bytes = decode_base64(best.at("index").string("data"), "index");
  std::set<int32_t> seen;
  for (size_t i = 0; i < bytes.size() / sizeof(int32_t); ++i) {
    int32_t key = 0;
    std::memcpy(&key, bytes.data() + i * sizeof key, sizeof key);
    if (key >= 0) {
      seen.insert(key);
    }
  }
  std::set<int32_t> window;
  for (int32_t i = 0; i < 16; ++i) {
    window.insert(i / 4 * 68 + 4 + i % 4);
  }
  EXPECT_EQ(seen, window);
}

}  // namespace
}  // namespace heed::test
