// The explorer on families beyond text, on long texts, and what depends on the model's head.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>

#include "base/base64.h"
#include "base/check.h"
#include "heed/generate.h"
#include "heed/inspect.h"
#include "heed/serve.h"
#include "io/json.h"
#include "support/data.h"

namespace heed {
namespace {

Tokenizer letters() {
  const std::vector<std::string_view> texts{"abcdefgh"};
  TokenizerTraining training;
  training.kind = TokenizerKind::character;
  training.special_tokens = {"<unk>"};
  return train_tokenizer(std::span<const std::string_view>(texts), training);
}

ExplorerModel explorer_model(std::shared_ptr<const Model> model,
                             const std::filesystem::path& path = {}) {
  ExplorerModel made;
  made.id = "m";
  made.path = path;
  made.model = std::move(model);
  made.tokenizer = letters();
  return made;
}

ExplorerModel golden(const std::string& name) {
  const auto path = test::golden("models/" + name);
  return explorer_model(load_model(path), path);
}

class Page {
 public:
  explicit Page(ExplorerModel model)
      : model_(std::move(model)), explorer_({"m"}, [this](const std::string&) { return model_; }) {}
  Json post(const std::string& path, const std::string& body, int status = 200) {
    const Explorer::Answer answer = explorer_.answer("POST", "/heed/v1/" + path, body);
    EXPECT_EQ(answer.status, status) << path << " " << body << "\n" << answer.json.substr(0, 500);
    return Json::parse(answer.json, "answer");
  }
  std::string trace(const std::string& fields) {
    made = post("traces", R"({"model":"m",)" + fields + "}");
    return "traces/" + made->string("id");
  }
  std::optional<Json> made;
  ExplorerModel model_;
  Explorer explorer_;
};

class NonLinearHead : public testing::TestWithParam<const char*> {};

TEST_P(NonLinearHead, LogitsAreSplitByIntegratedGradients) {
  Page page(golden(GetParam()));
  const std::string trace = page.trace(R"("text":"abcabd")");
  const Json prediction = page.made->at("prediction");
  const int64_t position = prediction.integer("position", -1, 100);
  for (size_t i = 0; i < 3; ++i) {
    const int64_t token = prediction.at("candidates")[i].integer("id", 0, 1000);
    const Json split = page.post(trace + "/attribution",
                                 fmt::format(R"({{"position":{},"token":{}}})", position, token));
    EXPECT_TRUE(split.boolean("integrated"));
    double sum = 0, size = 0;
    for (const Json& part : split.at("parts").elements()) {
      sum += part.at("value").number();
      size += std::abs(part.at("value").number());
    }
    const double logit = split.at("logit").number();
    EXPECT_NEAR(sum + split.at("remainder").number(), logit, 1e-9 * (1 + size));
    EXPECT_LE(std::abs(split.at("remainder").number()), 1e-3 * (size + 1e-3)) << token;
    EXPECT_GT(size, 0.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, NonLinearHead,
                         testing::Values("bert_mlm", "distilbert_mlm", "bert_classify"));

/// The sizes of the parts of the model that a logit is split into, biases left out.
double size_of_parts(const Json& split) {
  double size = 0;
  for (const Json& part : split.at("parts").elements()) {
    size += part.at("part").string("type") == "bias" ? 0 : std::abs(part.at("value").number());
  }
  return size;
}

TEST(ExplorerModels, AReadersAnswerIsSplitAtTheWordItIsAskedAbout) {
  for (const std::string readout : {"attention", "classifier"}) {
    const std::shared_ptr<const Model> model = create_model(
        R"({"model_type":"heed-reader","readout":")" + readout +
            R"(","vocab_size":12,"max_position_embeddings":16,"d_model":16,"encoder_layers":2,
               "encoder_attention_heads":4,"encoder_ffn_dim":24,"activation_function":"gelu",
               "dropout":0.0,"pad_token_id":0,"id2label":{"0":"cat","1":"street"}})",
        7);
    Page page(explorer_model(model));
    const std::string trace = page.trace(R"("text":"abcabd")");
    EXPECT_EQ(page.made->integer("asked", -1, 100), 5);  // no pronoun: the last word
    const Json best = page.made->at("prediction").at("candidates")[0];
    if (readout == "classifier") {
      EXPECT_TRUE(best.string("token") == "cat" || best.string("token") == "street");
    }
    const Json split =
        page.post(trace + "/attribution",
                  fmt::format(R"({{"position":-1,"token":{}}})", best.integer("id", 0, 100)));
    const double logit = split.at("logit").number();
    double sum = 0;
    for (const Json& part : split.at("parts").elements()) {
      sum += part.at("value").number();
    }
    EXPECT_NEAR(sum, logit, 1e-5) << readout;
    EXPECT_GE(size_of_parts(split), 0.5 * std::abs(logit)) << readout;
    // The lens ends at the prediction.
    const Json rows = page.post(trace + "/lens", R"({"position":-1})").at("rows");
    EXPECT_NEAR(rows[rows.size() - 1].at("candidates")[0].at("logit").number(), logit, 1e-5);
  }
}

TEST(ExplorerModels, AMeanOverAllRowsIsSplitOverAllOfThem) {
  // A linear head on the mean of the patches: the logit is a sum over all of them.
  Page page(golden("swin_classify"));
  const std::string trace = page.trace(R"("top_k":3)");
  for (const Json& each : page.made->at("prediction").at("candidates").elements()) {
    const Json split =
        page.post(trace + "/attribution",
                  fmt::format(R"({{"position":-1,"token":{}}})", each.integer("id", 0, 100)));
    EXPECT_FALSE(split.boolean("integrated"));
    double sum = 0, size = 0;
    for (const Json& part : split.at("parts").elements()) {
      sum += part.at("value").number();
      size += std::abs(part.at("value").number());
    }
    EXPECT_NEAR(sum, each.at("logit").number(), 1e-5 * (1 + size));
    EXPECT_GE(size_of_parts(split), 0.1 * size);
  }
  // A head with an activation behind the mean.
  Page reader(golden("heed_sentiment"));
  const std::string text = reader.trace(R"("text":"abcabd")");
  const Json split = reader.post(text + "/attribution", R"({"position":-1,"token":0})");
  EXPECT_LE(std::abs(split.at("remainder").number()), 2e-3);
  std::set<std::string> types;
  for (const Json& part : split.at("parts").elements()) {
    types.insert(part.at("part").string("type"));
  }
  EXPECT_TRUE(types.contains("embed") && types.contains("head") && types.contains("mlp"));
}

TEST(ExplorerModels, ExamplesAreTextsThatTheModelKnows) {
  const test::TemporaryFolder folder;
  const std::filesystem::path run = folder.path();
  std::filesystem::create_directories(run / "model");
  std::ofstream(run / "samples.jsonl")
      << R"({"step":1,"input":"abc","target":"","output":"x"})" << '\n'
      << R"({"step":1,"input":"xyz","target":"","output":"x"})" << '\n'
      << R"({"step":2,"input":"abc","target":"","output":"y"})" << '\n'
      << R"({"step":2,"inp)";
  ExplorerModel model = golden("bart");
  model.path = run / "model";
  Page page(std::move(model));
  const Explorer::Answer answer = page.explorer_.answer("GET", "/heed/v1/models", "");
  const Json examples = Json::parse(answer.json, "models").at("models")[0].at("examples").at("ko");
  ASSERT_EQ(examples.size(), 1U);  // xyz has unknown letters
  EXPECT_EQ(examples[0].string(), "abc");
}

TEST(ExplorerModels, NeuronsNameTheTokensTheyFavour) {
  Page page(golden("gpt2_lm"));
  const std::string trace = page.trace(R"("text":"abcabd")");
  const Json steps =
      page.post(trace + "/steps", R"({"kind":"self","layer":1,"head":0,"query":5,"top_k":3})");
  for (const Json& neuron : steps.at("neurons").elements()) {
    const Json promotes = neuron.at("promotes");
    ASSERT_EQ(promotes.size(), 5);
    for (size_t i = 0; i + 1 < 5; ++i) {
      EXPECT_GE(promotes[i].at("value").number(), promotes[i + 1].at("value").number());
    }
  }
}

TEST(ExplorerModels, BeamsComeStepByStepAndTheBestTextWithItsAttention) {
  Page page(golden("t5_relu"));
  std::vector<Json> beams, tokens;
  const Explorer::Answer answer = page.explorer_.generate(
      R"({"model":"m","text":"abc","num_beams":3,"max_tokens":4})",
      [&](std::string_view event, const std::string& json) {
        (event == "beams" ? beams : tokens).push_back(Json::parse(json, "event"));
        return true;
      });
  EXPECT_EQ(answer.status, 200) << answer.json;
  ASSERT_GE(beams.size(), 1);
  ASSERT_EQ(beams.front().at("hypotheses").size(), 3);
  for (const Json& step : beams) {
    for (const Json& each : step.at("hypotheses").elements()) {
      EXPECT_LT(each.integer("parent", -1, 100), 3);
    }
  }
  ASSERT_GE(tokens.size(), 2);  // the best text's, and "done"
  EXPECT_EQ(tokens.front().at("attention").string("kind"), "cross");
}

TEST(ExplorerModels, PiecesOfASyllableStandTogether) {
  const std::vector<std::string_view> texts{"abcdefgh abc"};
  TokenizerTraining training;
  training.kind = TokenizerKind::byte_bpe;
  training.vocab_size = 260;
  ExplorerModel model = golden("gpt2_lm");
  model.tokenizer = train_tokenizer(std::span<const std::string_view>(texts), training);
  Page page(std::move(model));
  const std::string text = "a 뷁을 b";
  const Json tokens =
      page.post("tokenize", R"({"model":"m","text":")" + text + R"("})").at("tokens");
  std::string joined;
  int64_t last = -1;
  for (const Json& token : tokens.elements()) {
    const std::string piece = token.string("text");
    EXPECT_EQ(piece.find("\uFFFD"), std::string::npos) << token.string("label");
    const int64_t group = token.integer("group", 0, 100);
    EXPECT_TRUE(group == last + 1 || (group == last && piece.empty())) << token.string("label");
    last = group;
    joined += piece;
  }
  EXPECT_EQ(joined, text);
  EXPECT_GT(tokens.size(), static_cast<size_t>(last) + 1);  // there are pieces
  const std::vector<TokenId> pieces = page.model_.tokenizer.encode_ids("뷁", false);
  EXPECT_EQ(token_labels(pieces, page.model_.tokenizer).front(), "\\xEB");
}

TEST(ExplorerModels, ASpaceThatSentencePieceAddsStandsAlone) {
  HEED_NEEDS_SHARED("stories260k/tok512.bin");
  ExplorerModel model = golden("gpt2_lm");
  model.tokenizer = Tokenizer::load(test::shared_data("stories260k/tok512.bin"));
  Page page(std::move(model));
  const Json made = page.post("tokenize", R"({"model":"m","text":"고 a"})").at("tokens");
  std::string labels;
  for (const Json& token : made.elements()) {
    labels += token.string("label") + std::to_string(token.integer("group", 0, 100)) + " ";
  }
  EXPECT_EQ(token_labels({made[1].integer("id", 0, 511)}, page.model_.tokenizer).front(), "␣");
  EXPECT_EQ(labels, "<s>0 ␣1 고(1/3)2 고(2/3)2 고(3/3)2 a3 ");
}

TEST(ExplorerModels, TracesTakeTokenIds) {
  Page page(golden("gpt2_lm"));
  page.trace(R"("text":"abcd")");
  const Json by_text = page.made->at("prediction").at("candidates");
  std::string ids;
  for (const Json& token : page.made->at("sides").at("source").elements()) {
    ids += (ids.empty() ? "" : ",") + std::to_string(token.integer("id", 0, 1000));
  }
  page.trace(R"("ids":[)" + ids + "]");
  EXPECT_EQ(page.made->at("prediction").at("candidates").dump(), by_text.dump());
  page.post("traces", R"({"model":"m","ids":[100000]})", 400);
  page.post("traces", R"({"model":"m","ids":[]})", 400);
}

TEST(ExplorerModels, PicturesAreShownAsTheModelSeesThem) {
  Page page(golden("vit_classify"));
  std::string picture = "P6 8 12 255\n";
  for (int i = 0; i < 8 * 12 * 3; ++i) {
    picture += static_cast<char>(i % 256);
  }
  page.trace(R"("image":")" + encode_base64(picture) + R"(")");
  EXPECT_TRUE(page.made->at("input").string("image").starts_with("data:image/png;base64,"));
  EXPECT_EQ(page.made->at("sides").at("source").size(), 7);
}

/// A small Whisper whose tokenizer knows letters; ids from 20 on are its own.
std::shared_ptr<const Model> small_whisper() {
  return create_model(
      R"({"model_type":"whisper","architectures":["WhisperForConditionalGeneration"],
    "d_model":16,"encoder_layers":2,"decoder_layers":2,"encoder_attention_heads":2,
    "decoder_attention_heads":2,"encoder_ffn_dim":16,"decoder_ffn_dim":16,"num_mel_bins":8,
    "max_source_positions":50,"max_target_positions":32,"vocab_size":60,"eos_token_id":20,
    "decoder_start_token_id":21,"no_timestamps_token_id":23,
    "suppress_tokens":[9,10,11,12,13,14,15,16,17,18,19,22]})",
      3);
}

TEST(ExplorerModels, SpeechIsRead) {
  Page page(explorer_model(small_whisper()));
  const std::string trace = page.trace(R"("target":"abc")");
  EXPECT_EQ(page.made->at("sides").at("source").size(), 50);
  EXPECT_EQ(page.made->at("sides").at("source")[1].string("label"), "0.02 s");
  EXPECT_EQ(page.made->at("sides").at("target").size(), 5);  // start, no timestamps, a, b, c
  std::vector<std::string> kinds;
  for (const Json& each : page.made->at("attentions").elements()) {
    kinds.push_back(each.string("kind"));
  }
  EXPECT_EQ(kinds, (std::vector<std::string>{"encoder", "decoder", "cross"}));
  page.post(trace + "/tile",
            R"({"kind":"cross","layer":1,"head":0,"what":"weights","level":0,"row":0,"column":0})");
  const Json why =
      page.post(trace + "/why", R"({"kind":"cross","layer":1,"head":0,"query":3,"key":7})");
  EXPECT_LE(std::abs(why.at("remainder").number()), 1e-4);
  page.trace("\"top_k\":3");  // writes its own text
  EXPECT_TRUE(page.made->boolean("generated"));
}

TEST(ExplorerModels, AnImageIsComparedWithTexts) {
  for (const char* name : {"clip", "siglip"}) {
    Page page(golden(name));
    const std::string trace = page.trace(R"("text":"abcabd\ncdeabd\n")");
    std::vector<std::string> kinds, sides;
    for (const Json& each : page.made->at("attentions").elements()) {
      kinds.push_back(each.string("kind"));
      sides.push_back(each.string("query_side") + " " + each.string("key_side"));
    }
    EXPECT_EQ(kinds, (std::vector<std::string>{"vision", "text"})) << name;
    EXPECT_EQ(sides, (std::vector<std::string>{"source source", "target target"}));
    // Both texts in one batch, by the model itself.
    ModelInput input;
    const auto first = page.model_.tokenizer.encode("abcabd").ids;
    std::vector<TokenId> ids = page.model_.tokenizer.encode("cdeabd").ids;
    ids.insert(ids.begin(), first.begin(), first.end());
    input.input_ids = Tensor::from(ids, {2, static_cast<int64_t>(first.size())});
    const int64_t size =
        page.model_.model->config().at("vision_config").integer("image_size", 1, 1000);
    std::vector<float> pixels;
    for (int64_t i = 0; i < 3 * size * size; ++i) {
      const auto at = [size](int64_t x) {
        return static_cast<double>(x) / static_cast<double>(size) - 0.5;
      };
      const double x = at(i % size), y = at(i / size % size);
      pixels.push_back(x * x + y * y < 0.09 ? 1.0F : -1.0F);  // what is shown without an image
    }
    input.pixel_values = Tensor::from(pixels, {1, 3, size, size});
    const std::vector<double> wanted =
        page.model_.model->forward(input).logits_per_image.to_doubles();
    const auto logit = [](const Json& prediction, int64_t id) {
      for (const Json& each : prediction.at("candidates").elements()) {
        if (each.integer("id", 0, 9) == id) {
          EXPECT_EQ(each.string("token"), id == 0 ? "abcabd" : "cdeabd");
          return each.at("logit").number();
        }
      }
      return std::nan("");
    };
    const Json prediction = page.made->at("prediction");
    EXPECT_NEAR(logit(prediction, 0), wanted[0], 1e-4) << name;
    EXPECT_NEAR(logit(prediction, 1), wanted[1], 1e-4) << name;
    for (const std::string& kind : kinds) {
      const std::string place = R"("kind":")" + kind + R"(","layer":1,"head":1,"query":2)";
      page.post(trace + "/steps", "{" + place + "}");
      const Json why = page.post(trace + "/why", "{" + place + R"(,"key":1})");
      EXPECT_LE(std::abs(why.at("remainder").number()), 1e-4) << name << " " << kind;
      EXPECT_GT(page.post(trace + "/experiment", R"({"interventions":[{"type":"head","kind":")" +
                                                     kind + R"(","layer":0,"head":0,"scale":0}]})")
                    .at("kl")
                    .number(),
                0.0)
          << name << " " << kind;
    }
  }
}

TEST(ExplorerModels, LongTextsComputeLogitsWhereTheyAreAskedFor) {
  // 2,200 tokens times 32,000 words are more logits than are kept.
  const auto config = R"({"model_type":"gpt2","architectures":["GPT2LMHeadModel"],"n_embd":16,
    "n_layer":2,"n_head":2,"n_positions":4096,"vocab_size":32000})";
  Page page(explorer_model(create_model(config, 4)));
  std::string text;
  for (int i = 0; i < 2200; ++i) {
    text += static_cast<char>('a' + i * 7 % 8);
  }
  const std::string trace = page.trace(R"("text":")" + text + R"(")");
  EXPECT_EQ(page.made->at("predictions_at").size(), 2200);
  const Json long_answer = page.post(trace + "/predict", R"({"position":99,"top_k":4})");
  const std::string lens = page.post(trace + "/lens", R"({"position":99,"top_k":2})").dump();
  const Json split =
      page.post(trace + "/attribution",
                fmt::format(R"({{"position":99,"token":{}}})",
                            long_answer.at("candidates")[0].integer("id", 0, 1 << 20)));
  EXPECT_LE(std::abs(split.at("remainder").number()), 1e-4);
  // The same bits as a text that ends there: a causal model does not look ahead.
  const std::string short_trace = page.trace(R"("text":")" + text.substr(0, 100) + R"(")");
  EXPECT_EQ(page.post(short_trace + "/predict", R"({"position":99,"top_k":4})").dump(),
            long_answer.dump());
  EXPECT_EQ(page.post(short_trace + "/lens", R"({"position":99,"top_k":2})").dump(), lens);
}

}  // namespace
}  // namespace heed
