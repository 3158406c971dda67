#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>
#include <set>

#include "heed/io.h"
#include "pipelines/support.h"
#include "support/check.h"

namespace heed::test {
namespace {

std::string repeated(const std::string& word, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += (i == 0 ? "" : " ") + word;
  }
  return text;
}

TEST(FillMask, GivesProbabilitiesOfTheModelsOwnLogits) {
  TemporaryFolder folder;
  const FillMask fill(make_encoder(folder.path(), "BertForMaskedLM"));
  const auto masks = fill("the film was [MASK] and <mask>", {.top_k = 3});
  ASSERT_EQ(masks.size(), 2u);
  const LoadedModel& loaded = fill.loaded();
  std::vector<int64_t> ids;
  for (const TokenId id : loaded.tokenizer.encode_ids("the film was [MASK] and [MASK]")) {
    ids.push_back(id);
  }
  ModelInput input;
  input.input_ids = Tensor::from(ids, {1, static_cast<int64_t>(ids.size())});
  const Tensor probabilities = softmax(loaded.model->forward(input).logits[0]);
  for (const MaskedToken& mask : masks) {
    EXPECT_EQ(ids[static_cast<size_t>(mask.position)], *loaded.tokenizer.special().mask);
    const Ordered best = topk(probabilities[mask.position], 3);
    ASSERT_EQ(mask.candidates.size(), 3u);
    for (int64_t i = 0; i < 3; ++i) {
      const MaskCandidate& each = mask.candidates[static_cast<size_t>(i)];
      EXPECT_EQ(each.id, static_cast<TokenId>(best.indices[i].item()));
      EXPECT_NEAR(each.probability, best.values[i].item(), 1e-6);
      EXPECT_FALSE(each.token.empty());
    }
  }
  EXPECT_NE(message_of([&] { fill("no mask here"); }).find("no [MASK]"), std::string::npos);
}

TEST(TextClassification, BatchesGiveWhatTextsGiveAlone) {
  TemporaryFolder folder;
  const TextClassification classify(
      make_encoder(folder.path(), "BertForSequenceClassification",
                   R"(, "id2label": {"0": "bad", "1": "good", "2": "odd"})"));
  const auto together = classify(sample_texts(), {.run = {.batch_size = 4}});
  for (size_t i = 0; i < sample_texts().size(); ++i) {
    const auto alone = classify(sample_texts()[i]);
    ASSERT_EQ(alone.size(), 3u);
    double sum = 0.0;
    for (size_t k = 0; k < alone.size(); ++k) {
      EXPECT_EQ(alone[k].label, together[i][k].label);
      EXPECT_EQ(alone[k].score, together[i][k].score);
      sum += alone[k].score;
    }
    EXPECT_NEAR(sum, 1.0, 1e-9);
    EXPECT_GE(alone[0].score, alone[1].score);
  }
  EXPECT_EQ(classify("birds sing", {.top_k = 1}).size(), 1u);
}

TEST(TextClassification, SeveralLabelsHaveSigmoids) {
  TemporaryFolder folder;
  const TextClassification classify(make_encoder(
      folder.path(), "BertForSequenceClassification",
      R"(, "problem_type": "multi_label_classification", "id2label": {"0": "a", "1": "b"})"));
  double sum = 0.0;
  for (const LabelScore& each : classify("the cat")) {
    EXPECT_GT(each.score, 0.0);
    EXPECT_LT(each.score, 1.0);
    sum += each.score;
  }
  EXPECT_GT(std::abs(sum - 1.0), 1e-6);
}

TEST(TextClassification, LongTextsAreCutWithAWarningAndOthersGoOn) {
  TemporaryFolder folder;
  const TextClassification classify(make_encoder(folder.path(), "BertForSequenceClassification"));
  const std::vector<std::string> texts{"the cat", repeated("dog", 60), "birds sing"};
  std::vector<size_t> warned;
  const auto cut = classify(texts, {.run = {.on_warning = [&](size_t i, const std::string& why) {
                                      warned.push_back(i);
                                      EXPECT_NE(why.find("62 tokens"), std::string::npos) << why;
                                    }}});
  EXPECT_EQ(warned, std::vector<size_t>{1});
  EXPECT_EQ(cut[1].size(), 2u);

  std::vector<size_t> failed;
  const auto refused = classify(
      texts, {.truncate = false,
              .run = {.on_error = [&](size_t i, const std::string&) { failed.push_back(i); }}});
  EXPECT_EQ(failed, std::vector<size_t>{1});
  EXPECT_TRUE(refused[1].empty());
  EXPECT_EQ(refused[0][0].score, cut[0][0].score);
  EXPECT_EQ(refused[2][0].score, cut[2][0].score);
  EXPECT_NE(message_of([&] { classify(texts, {.truncate = false}); }).find("input 1"),
            std::string::npos);
}

TEST(TextClassification, ProgressAndStopping) {
  TemporaryFolder folder;
  const TextClassification classify(make_encoder(folder.path(), "BertForSequenceClassification"));
  std::vector<int64_t> done;
  std::stop_source stop;
  const RunOptions run{.batch_size = 2,
                       .progress =
                           [&](int64_t n, int64_t total) {
                             EXPECT_EQ(total, 6);
                             done.push_back(n);
                             if (n == 4) {
                               stop.request_stop();
                             }
                           },
                       .stop = stop.get_token()};
  const std::string message = message_of([&] { classify(sample_texts(), {.run = run}); });
  EXPECT_EQ(done, (std::vector<int64_t>{2, 4}));
  EXPECT_NE(message.find("stopped after 4 of 6"), std::string::npos) << message;
}

TEST(TokenClassification, SpansCoverTheirText) {
  TemporaryFolder folder;
  const TokenClassification tag(
      make_encoder(folder.path(), "BertForTokenClassification",
                   R"(, "id2label": {"0": "O", "1": "B-PER", "2": "I-PER"})"));
  const std::string text = "the cat sat on the mat";
  const auto tokens = tag(text, {.aggregate = false});
  ASSERT_EQ(tokens.size(), tag.loaded().tokenizer.encode_ids(text, false).size());
  for (const LabelledSpan& each : tokens) {
    EXPECT_GT(each.score, 1.0 / 3 - 1e-9);
    EXPECT_LT(each.span.begin, each.span.end);
  }
  for (const LabelledSpan& each : tag(text)) {
    EXPECT_EQ(each.label, "PER");
    EXPECT_EQ(each.text, text.substr(static_cast<size_t>(each.span.begin),
                                     static_cast<size_t>(each.span.end - each.span.begin)));
  }
}

TEST(FeatureExtraction, PoolsEncodersWithAndWithoutHeads) {
  TemporaryFolder folder;
  const FeatureExtraction embed(
      make_encoder(folder.path() / "tuned", "BertForSequenceClassification"));
  const Tensor all = embed(sample_texts(), {.run = {.batch_size = 4}});
  ASSERT_EQ(all.shape(), Shape({6, 16}));
  for (int64_t i = 0; i < 6; ++i) {
    expect_same_bits(all[i], embed(sample_texts()[static_cast<size_t>(i)]));
    EXPECT_NEAR(sum(mul(all[i], all[i])).item(), 1.0, 1e-5);
  }
  // By hand: the mean, the first and the largest of the encoder's rows.
  std::vector<int64_t> ids;
  for (const TokenId id : embed.loaded().tokenizer.encode_ids("birds sing")) {
    ids.push_back(id);
  }
  ModelInput input;
  input.input_ids = Tensor::from(ids, {1, static_cast<int64_t>(ids.size())});
  const Tensor rows = embed.loaded().model->encode(input).rows;
  const FeatureOptions raw{.normalize = false};
  expect_close(embed("birds sing", raw), mean(rows, 0), elementwise(DType::f32));
  expect_same_bits(embed("birds sing", {.pooling = Pooling::cls, .normalize = false}), rows[0]);
  expect_same_bits(embed("birds sing", {.pooling = Pooling::max, .normalize = false}),
                   max(rows, 0));
}

TEST(Classification, ADecoderClassifiesByTheLastTokenOfEachText) {
  TemporaryFolder folder;
  const TextClassification classify(make_decoder(folder.path(), "GPT2ForSequenceClassification"));
  const std::vector<std::string> texts = {"the cat", "the cat sat on the mat", "birds"};
  const auto together = classify(texts);
  for (size_t i = 0; i < texts.size(); ++i) {
    ModelInput input;
    const std::vector<TokenId> ids = classify.loaded().tokenizer.encode_ids(texts[i]);
    input.input_ids = Tensor::from(std::vector<int64_t>(ids.begin(), ids.end()),
                                   {1, static_cast<int64_t>(ids.size())});
    const Tensor expected = softmax(classify.loaded().model->forward(input).logits, -1);
    EXPECT_NEAR(together[i].front().score, max(expected, 1).item(), 1e-6) << texts[i];
  }
}

TEST(Classification, ADecoderClassifiesTokens) {
  TemporaryFolder folder;
  const TokenClassification tag(make_decoder(folder.path(), "GPT2ForTokenClassification"));
  EXPECT_FALSE(tag("the cat sat").empty());
}

TEST(FeatureExtraction, FollowsSentenceTransformersFiles) {
  TemporaryFolder folder;
  make_encoder(folder.path(), "BertModel");
  std::filesystem::create_directory(folder / "1_Pooling");
  std::ofstream(folder / "modules.json")
      << R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
             {"idx": 1, "name": "1", "path": "1_Pooling",
              "type": "sentence_transformers.models.Pooling"}])";
  std::ofstream(folder / "1_Pooling/config.json")
      << R"({"word_embedding_dimension": 16, "pooling_mode_cls_token": true,
             "pooling_mode_mean_tokens": false})";
  std::ofstream(folder / "sentence_bert_config.json") << R"({"max_seq_length": 4})";
  const FeatureExtraction embed(folder.path());
  EXPECT_EQ(embed.default_pooling(), Pooling::cls);
  EXPECT_FALSE(embed.default_normalize());
  bool warned = false;
  embed(std::vector<std::string>{"the cat sat on the mat"},
        {.run = {.on_warning = [&](size_t, const std::string&) { warned = true; }}});
  EXPECT_TRUE(warned);

  std::ofstream(folder / "modules.json") << R"([{"type": "x.Pooling", "path": "../away"}])";
  EXPECT_NE(message_of([&] { FeatureExtraction{folder.path()}; }).find("outside the folder"),
            std::string::npos);
}

TEST(Open, AWrongModelIsAnErrorThatTeaches) {
  TemporaryFolder folder;
  const auto decoder = make_decoder(folder.path() / "decoder");
  const auto encoder = make_encoder(folder.path() / "encoder", "BertModel");
  EXPECT_NE(message_of([&] { pipeline("translation", decoder); })
                .find("`translation` needs an encoder-decoder model; this folder holds a decoder "
                      "(gpt2)."),
            std::string::npos);
  EXPECT_NE(message_of([&] { pipeline<FillMask>(decoder); }).find("holds a decoder (gpt2)"),
            std::string::npos);
  const std::string headless = message_of([&] { pipeline<TextClassification>(encoder)("a cat"); });
  EXPECT_NE(headless.find("classification head"), std::string::npos) << headless;
  const std::string unknown = message_of([&] { pipeline("summon", encoder); });
  EXPECT_NE(unknown.find("fill-mask"), std::string::npos) << unknown;
}

TEST(Open, FindsNamesOfTheHubInTheLocalCache) {
  TemporaryFolder cache;
  const auto snapshot = cache.path() / "models--someone--tiny" / "snapshots" / "abc123";
  make_encoder(snapshot, "BertModel");
  std::filesystem::create_directories(cache.path() / "models--someone--tiny" / "refs");
  std::ofstream(cache.path() / "models--someone--tiny" / "refs" / "main") << "abc123\n";
  setenv("HF_HUB_CACHE", cache.path().c_str(), 1);
  EXPECT_EQ(find_model("someone/tiny"), snapshot);
  EXPECT_EQ(find_model("someone/tiny@abc123"), snapshot);
  EXPECT_EQ(open_model("someone/tiny").model->model_type(), "bert");
  const std::string absent = message_of([] { find_model("someone/else"); });
  EXPECT_NE(absent.find("hf download someone/else"), std::string::npos) << absent;
  EXPECT_NE(message_of([] { find_model("../no such/model"); }).find("no such file"),
            std::string::npos);
  unsetenv("HF_HUB_CACHE");
}

TEST(ByName, ResultsAreHuggingFacesJson) {
  TemporaryFolder folder;
  const auto path = make_encoder(folder.path(), "BertForMaskedLM");
  const Pipeline fill = pipeline("fill-mask", path);
  EXPECT_EQ(fill.task(), "fill-mask");
  const Json result = fill({"the [MASK] sat"}, Json::parse(R"({"top_k": 2})", "options"));
  ASSERT_EQ(result.size(), 1u);
  ASSERT_EQ(result[0][0].size(), 2u);
  const auto direct = fill.as<FillMask>()("the [MASK] sat", {.top_k = 2});
  EXPECT_EQ(result[0][0][0].integer("token", 0, 1000), direct[0].candidates[0].id);
  EXPECT_EQ(result[0][0][0].string("token_str"), direct[0].candidates[0].token);
  const std::string wrong =
      message_of([&] { fill({"the [MASK]"}, Json::parse(R"({"top_q": 2})", "options")); });
  EXPECT_NE(wrong.find("top_q"), std::string::npos) << wrong;
  EXPECT_NE(message_of([&] { fill.as<Translation>(); }).find("`fill-mask` pipeline"),
            std::string::npos);
}

/// Scores are those of the model's own logits: a softmax over the labels, or a sigmoid each.
TEST(ZeroShotImageClassification, ScoresLabelsByTheModelsLogits) {
  for (const std::string family : {"clip", "siglip"}) {
    const TemporaryFolder folder;
    const std::filesystem::path model = make_image_text(folder / family, family);
    Tensor pixels = Tensor::empty({10, 8, 3}, DType::u8);
    for (int64_t i = 0; i < pixels.numel(); ++i) {
      pixels.data<uint8_t>()[i] = static_cast<uint8_t>(i * 37 % 251);
    }
    save_png(folder / "image.png", pixels);
    const ZeroShotImageClassification classify(model);
    ZeroShotOptions options;
    options.labels = {"cat", "dog", "bad film"};
    options.hypothesis_template = "the {}";
    const std::vector<LabelScore> scores = classify(folder / "image.png", options);
    ASSERT_EQ(scores.size(), 3u);
    double sum = 0.0;
    std::set<std::string> labels;
    for (const LabelScore& each : scores) {
      sum += each.score;
      labels.insert(each.label);
      EXPECT_GE(scores.front().score, each.score);
    }
    EXPECT_EQ(labels, (std::set<std::string>{"cat", "dog", "bad film"}));
    if (family == "clip") {
      EXPECT_NEAR(sum, 1.0, 1e-6);
    } else {
      EXPECT_LT(scores.front().score, 0.5);  // a fresh bias of -10 says no to every pair
    }
    // A label's score against another one does not depend on the others.
    options.labels = {"dog", "cat"};
    const std::vector<LabelScore> two = classify(folder / "image.png", options);
    const auto of = [](const std::vector<LabelScore>& all, const std::string& label) {
      return std::find_if(all.begin(), all.end(),
                          [&](const LabelScore& each) { return each.label == label; })
          ->score;
    };
    EXPECT_NEAR(of(two, "cat") / of(two, "dog"), of(scores, "cat") / of(scores, "dog"), 1e-4);
    const Json json = pipeline("zero-shot-image-classification", model)(
        {(folder / "image.png").string()},
        Json::parse(R"({"candidate_labels": ["cat", "dog"], "hypothesis_template": "the {}"})",
                    "options"));
    EXPECT_NEAR(json[0][0].at("score").number(), two.front().score, 1e-9);
    options.labels.clear();
    EXPECT_NE(message_of([&] {
                classify(folder / "image.png", options);
              }).find("there are no labels to choose from"),
              std::string::npos);
    options.labels = {"cat"};
    options.hypothesis_template = "no place";
    EXPECT_NE(message_of([&] { classify(folder / "image.png", options); }).find("has no {}"),
              std::string::npos);
  }
}

TEST(ZeroShotImageClassification, NeedsAModelOfImagesAndTexts) {
  const TemporaryFolder folder;
  const std::filesystem::path model = make_encoder(folder / "bert", "BertModel");
  EXPECT_NE(message_of([&] {
              ZeroShotImageClassification{model};
            }).find("needs a model that compares images with texts; this folder holds an encoder"),
            std::string::npos);
}

}  // namespace
}  // namespace heed::test
