// Every golden model, and a fresh one of every other architecture that heed knows, on the explorer:
// nothing that heed runs is refused, and what is shown adds up.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "base/base64.h"
#include "base/file.h"
#include "heed/serve.h"
#include "io/json.h"
#include "models/forward.h"
#include "support/data.h"

namespace heed {
namespace {

Tokenizer letters(bool speech) {
  const std::vector<std::string_view> texts{"abcdefgh"};
  TokenizerTraining training;
  training.kind = TokenizerKind::character;
  training.special_tokens = {"<unk>"};
  if (speech) {
    training.special_tokens = {"<unk>", "<|endoftext|>", "<|startoftranscript|>",
                               "<|notimestamps|>"};
  }
  return train_tokenizer(std::span<const std::string_view>(texts), training);
}

std::vector<double> doubles(const Json& tensor) {
  const std::string bytes = decode_base64(tensor.string("data"), "tensor");
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// A model on the explorer, and what it says about it.
class Page {
 public:
  explicit Page(std::shared_ptr<const Model> model, const std::filesystem::path& path = {})
      : explorer_({"m"}, [this](const std::string&) { return model_; }) {
    model_.id = "m";
    model_.path = path;
    model_.tokenizer = letters(model->kind() == ModelKind::speech_decoder);
    model_.model = std::move(model);
    about =
        Json::parse(explorer_.answer("GET", "/heed/v1/models", "").json, "models").at("models")[0];
  }
  Json post(const std::string& path, const std::string& body, int status = 200) {
    const Explorer::Answer answer = explorer_.answer("POST", "/heed/v1/" + path, body);
    EXPECT_EQ(answer.status, status) << path << " " << body << "\n" << answer.json.substr(0, 300);
    return Json::parse(answer.json, "answer");
  }
  void open(const std::string& text) {
    const std::string field =
        about->at("inputs").boolean("text") ? R"(,"text":")" + text + '"' : "";
    trace = post("traces", R"({"model":"m")" + field + "}");
    at = trace->has("id") ? "traces/" + trace->string("id") : "";
  }
  bool can(const char* what) const { return about->at("can").boolean(what); }

  ExplorerModel model_;
  Explorer explorer_;
  std::optional<Json> about, trace;
  std::string at;
};

/// The last position that stands for a token, a patch or a moment.
int64_t last_query(const Json& tokens) {
  auto last = static_cast<int64_t>(tokens.size()) - 1;
  while (last > 0 && tokens[static_cast<size_t>(last)].string("label") == "pad") {
    --last;
  }
  return last;
}

/// Steps and Why of every layer: parts of a score add up to it.
void check_attentions(Page& page) {
  const Json sides = page.trace->at("sides");
  for (const Json& each : page.trace->at("attentions").elements()) {
    const std::string kind = each.string("kind"), side = each.string("query_side");
    const Json tokens = sides.at(side);
    const bool readout = kind == "readout";
    EXPECT_EQ(each.integer("queries", 1, 99999), readout ? 1 : static_cast<int64_t>(tokens.size()))
        << kind;
    EXPECT_EQ(each.integer("keys", 1, 99999),
              static_cast<int64_t>(sides.at(each.string("key_side")).size()));
    const int64_t query = readout ? 0 : last_query(tokens);
    for (int64_t layer = 0; layer < each.integer("layers", 1, 99); ++layer) {
      const std::string place =
          fmt::format(R"("kind":"{}","layer":{},"head":0,"query":{})", kind, layer, query);
      if (side == "landmarks" || readout) {  // documented: means of tokens, and a choice
        continue;
      }
      if (page.about->string("norm") == "none") {  // documented: an RNN is no stack of blocks
        page.post(page.at + "/steps", "{" + place + "}", 409);
        continue;
      }
      page.post(page.at + "/steps", "{" + place + "}");
      if (!page.can("why")) {
        continue;
      }
      const Json why = page.post(page.at + "/why", "{" + place + R"(,"key":0})");
      if (!why.has("score")) {
        continue;
      }
      double sum = why.at("bias").number(), size = 0;
      for (const double value : doubles(why.at("values"))) {
        sum += value;
        size += std::abs(value);
      }
      EXPECT_NEAR(sum, why.at("score").number(), 1e-5 * (size + 1e-3)) << kind << " " << layer;
    }
  }
}

/// The prediction, its lens and its parts, and an experiment that changes nothing.
void check_answers(Page& page) {
  const Json prediction = page.trace->at("prediction");
  const std::string answers = page.about->string("answers");
  const int64_t position = prediction.integer("position", -1, 99999);
  if (answers == "embedding") {
    EXPECT_EQ(prediction.at("candidates").size(), 0U);
    EXPECT_FALSE(page.can("lens") || page.can("generate"));
    return;
  }
  const Json same = page.post(page.at + "/experiment", R"({"interventions":[]})");
  EXPECT_NEAR(same.at("kl").number(), 0.0, 1e-9);
  if (!page.can("lens")) {
    return;
  }
  const Json best = prediction.at("candidates")[0];
  const double logit = best.at("logit").number();
  const Json rows =
      page.post(page.at + "/lens", fmt::format(R"({{"position":{}}})", position)).at("rows");
  EXPECT_NEAR(rows[rows.size() - 1].at("candidates")[0].at("logit").number(), logit, 1e-4);
  const Explorer::Answer split = page.explorer_.answer(
      "POST", "/heed/v1/" + page.at + "/attribution",
      fmt::format(R"({{"position":{},"token":{}}})", position, best.integer("id", 0, 1 << 20)));
  const Json parts = Json::parse(split.json, "attribution");
  if (split.status == 409) {  // documented: a mean over rows is not split
    EXPECT_NE(split.json.find("more than one row"), std::string::npos) << split.json;
    EXPECT_EQ(answers, "class");
    return;
  }
  ASSERT_EQ(split.status, 200) << split.json;
  EXPECT_NEAR(parts.at("remainder").number(), 0.0, 2e-3 * (1 + std::abs(logit)));
}

void check_family(Page& page) {
  EXPECT_NE(page.about->string("family"), "other");
  page.open("abcabd");
  ASSERT_TRUE(page.trace->has("attentions"));
  // FNet mixes by Fourier transforms: there is no attention to show.
  EXPECT_EQ(page.trace->at("attentions").size() == 0, page.model_.model->model_type() == "fnet");
  check_answers(page);
  check_attentions(page);
  const int64_t context = page.model_.model->context_length();
  if (page.about->at("inputs").boolean("text") && (context == 0 || context >= 16)) {
    page.open("abcabdefghabcabd");  // more tokens than blocks and landmarks of sparse models
    ASSERT_TRUE(page.trace->has("attentions"));
    check_attentions(page);
  }
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test::golden("models"))) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, IsShownWhole) {
  const auto path = test::golden("models/" + GetParam());
  Page page(load_model(path), path);
  check_family(page);
}

INSTANTIATE_TEST_SUITE_P(Families, Golden, testing::ValuesIn(golden_names()),
                         [](const auto& of) { return of.param; });

/// Architectures that no golden model is of.
std::vector<std::string> other_types() {
  std::set<std::string> types;
  for (const std::string& type : known_model_types()) {
    types.insert(type);
  }
  for (const std::string& name : golden_names()) {
    const auto file = test::golden("models/" + name) / "config.json";
    types.erase(Json::parse(read_file(file), "config.json").string("model_type"));
  }
  return {types.begin(), types.end()};
}

/// A small configuration of an architecture; empty where it is made of other models, or reads
/// features that no file of the page holds.
std::string small_config(const std::string& type) {
  const ModelSpec* spec = find_model_spec(type);
  if (spec->reads_features) {
    return "";
  }
  if (type == "heed-reader") {
    return R"({"model_type":"heed-reader","readout":"attention","vocab_size":16,"d_model":16,
      "max_position_embeddings":32,"encoder_layers":2,"encoder_attention_heads":2,
      "encoder_ffn_dim":24,"activation_function":"gelu","dropout":0.0,"pad_token_id":0})";
  }
  if (!spec->fresh_config) {
    return type == "rag" ? "" : R"({"model_type":")" + type + R"(","vocab_size":16,"hidden_size":16,
      "num_hidden_layers":2,"num_layers":2,"num_attention_heads":2,"intermediate_size":24,
      "max_position_embeddings":32})";
  }
  FreshSizes sizes;
  sizes.vocab_size = 16;
  sizes.hidden_size = 16;
  sizes.num_layers = 2;
  sizes.num_heads = 2;
  sizes.intermediate_size = 24;
  sizes.context_length = 32;
  sizes.dropout = 0.0;
  sizes.image_size = 8;
  sizes.task = spec->train_tasks.empty() ? "" : spec->train_tasks.front();
  return spec->fresh_config(sizes).set("decoder_start_token_id", 1).set("eos_token_id", 2).dump();
}

TEST(Registry, EveryOtherArchitectureIsShown) {
  int64_t shown = 0;
  for (const std::string& type : other_types()) {
    SCOPED_TRACE(type);
    const std::string config = small_config(type);
    if (config.empty()) {
      EXPECT_TRUE(type == "rag" || type == "heed-captioner") << type;
      continue;
    }
    Page page(create_model(config, 5));
    const bool numbers = page.about->string("answers") == "number";
    page.open(numbers ? "1 2 3" : "abcabd");
    ASSERT_TRUE(page.trace->has("attentions"));
    EXPECT_GT(page.trace->at("attentions").size(), 0U);
    if (!numbers) {
      check_answers(page);
    }
    check_attentions(page);
    ++shown;
  }
  EXPECT_GE(shown, 5);
}

TEST(AnswerSpan, CandidatesAreStretchesOfThePassage) {
  for (const char* name : {"bert_qa", "bart_qa", "led_qa"}) {
    const auto path = test::golden(std::string("models/") + name);
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
    const auto path = test::golden(std::string("models/") + name);
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
  const auto path = test::golden("models/electra_replaced");
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

TEST(LargeGrid, LaterStagesAreShown) {
  // 66 x 66 = 4,356 patches, padded to 68 x 68; then 33 x 33, padded to 36 x 36.
  Page page(create_model(R"({"model_type":"swin","architectures":["SwinForImageClassification"],
      "image_size":132,"patch_size":2,"num_channels":1,"embed_dim":8,"depths":[1,2],
      "num_heads":[1,2],"window_size":4,"mlp_ratio":2.0,"num_labels":3})",
                         3));
  page.open("");
  EXPECT_EQ(page.trace->at("left_out")[0].string(), "stage0");
  ASSERT_EQ(page.trace->at("attentions").size(), 1U);
  EXPECT_EQ(page.trace->at("attentions")[0].string("kind"), "stage1");
  EXPECT_EQ(page.trace->at("sides").at("source").size(), 68U * 68U);
  check_answers(page);
  check_attentions(page);
}

}  // namespace
}  // namespace heed
