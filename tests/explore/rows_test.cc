// The explorer on models whose rows are no tokens: Swin, which merges patches from stage to stage
// and attends inside windows, and regressors, which read and answer numbers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/base64.h"
#include "generate/numbers.h"
#include "heed/inspect.h"
#include "heed/serve.h"
#include "heed/tensor.h"
#include "io/json.h"
#include "support/data.h"

namespace heed {
namespace {

std::vector<double> values_of(const Json& tensor) {
  const std::string bytes = decode_base64(tensor.string("data"), "tensor");
  if (tensor.string("dtype") == "f64") {
    std::vector<double> values(bytes.size() / 8);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::vector<float> floats(bytes.size() / 4);
  std::memcpy(floats.data(), bytes.data(), bytes.size());
  return {floats.begin(), floats.end()};
}

class Page {
 public:
  explicit Page(std::shared_ptr<const Model> model, const std::filesystem::path& path = {})
      : explorer_({"m"}, [this](const std::string&) { return model_; }) {
    model_.id = "m";
    model_.path = path;
    model_.model = std::move(model);
  }
  Json post(const std::string& path, const std::string& body, int status = 200) {
    const Explorer::Answer answer = explorer_.answer("POST", "/heed/v1/" + path, body);
    EXPECT_EQ(answer.status, status) << path << " " << body << "\n" << answer.json.substr(0, 500);
    return Json::parse(answer.json, "answer");
  }
  Json about() {
    const Explorer::Answer answer = explorer_.answer("GET", "/heed/v1/models", "");
    return Json::parse(answer.json, "models").at("models")[0];
  }
  std::string trace(const std::string& fields = "") {
    made = post("traces", R"({"model":"m")" + fields + "}");
    return "traces/" + made->string("id");
  }
  std::optional<Json> made;
  ExplorerModel model_;
  Explorer explorer_;
};

std::string at_place(const std::string& kind, int64_t layer, int64_t head,
                     const std::string& more) {
  return fmt::format(R"({{"kind":"{}","layer":{},"head":{},{}}})", kind, layer, head, more);
}

/// The parts of a score add up to it, and the remainder is rounding.
void check_why(Page& page, const std::string& trace, const std::string& kind, int64_t layer,
               int64_t query, int64_t key) {
  const Json why = page.post(
      trace + "/why", at_place(kind, layer, 0, fmt::format(R"("query":{},"key":{})", query, key)));
  double sum = why.at("bias").number(), size = 0;
  for (const double value : values_of(why.at("values"))) {
    sum += value;
    size += std::abs(value);
  }
  const double score = why.at("score").number();
  EXPECT_NEAR(sum, score, 1e-5 * (size + std::abs(score) + 1e-3)) << kind << " " << layer;
}

/// The residual stream of a layer: what enters it and what its attention adds make the middle.
void check_steps(Page& page, const std::string& trace, const std::string& kind, int64_t layer,
                 int64_t query, bool pre_norm) {
  const Json steps =
      page.post(trace + "/steps", at_place(kind, layer, 0, fmt::format(R"("query":{})", query)));
  const std::vector<double> before = values_of(steps.at("resid_pre")),
                            added = values_of(steps.at("attn_out")),
                            middle = values_of(steps.at("resid_mid"));
  EXPECT_GT(steps.at("neurons").size(), 0U);
  for (size_t i = 0; pre_norm && i < before.size(); ++i) {
    EXPECT_NEAR(before[i] + added[i], middle[i], 1e-5);
  }
}

class Stages : public testing::TestWithParam<std::string> {};

TEST_P(Stages, EachHasItsOwnGridAndTheEnginesWeights) {
  const auto path = test::golden("models/" + GetParam());
  Page page(load_model(path), path);
  const std::string trace = page.trace();
  const int64_t window = page.model_.model->config().integer("window_size", 1, 99);
  const Json grids = page.made->at("grids"), sides = page.made->at("sides");
  int64_t number = 0, rows_before = INT64_MAX;
  for (const Json& each : page.made->at("attentions").elements()) {
    const std::string kind = each.string("kind"), side = each.string("query_side");
    const Json grid = grids.at(side), tokens = sides.at(side);
    const int64_t columns = grid.integer("columns", 1, 999);
    EXPECT_EQ(each.string("key_side"), side);
    EXPECT_EQ(static_cast<int64_t>(tokens.size()), grid.integer("rows", 1, 999) * columns);
    EXPECT_EQ(each.integer("queries", 1, 9999), static_cast<int64_t>(tokens.size()));
    EXPECT_EQ(grid.integer("first_layer", 0, 99), number);
    EXPECT_LT(grid.integer("patch_rows", 1, 999), rows_before);
    rows_before = grid.integer("patch_rows", 1, 999);
    for (int64_t layer = 0; layer < each.integer("layers", 1, 99); ++layer, ++number) {
      // A patch in the middle, and what it looks at: only its window, whose weights are one.
      const int64_t query = grid.integer("patch_rows", 1, 999) / 2 * columns +
                            grid.integer("patch_columns", 1, 999) / 2;
      const Json tile =
          page.post(trace + "/tile",
                    at_place(kind, layer, 0, R"("what":"weights","level":0,"row":0,"column":0)"));
      const std::vector<double> weights = values_of(tile.at("values"));
      const auto count = static_cast<int64_t>(tokens.size());
      double sum = 0;
      int64_t seen = 0, key = query;
      for (int64_t j = 0; j < count; ++j) {
        const double weight = weights[static_cast<size_t>(query * count + j)];
        sum += weight;
        seen += weight > 0 ? 1 : 0;
        key = weight > 0 && tokens[static_cast<size_t>(j)].string("label") != "pad" ? j : key;
      }
      EXPECT_NEAR(sum, 1.0, 1e-5);
      EXPECT_LE(seen, window * window);
      check_why(page, trace, kind, layer, query, key);
      check_steps(page, trace, kind, layer, query, true);
    }
  }
  EXPECT_EQ(number, page.model_.model->num_layers());
}

INSTANTIATE_TEST_SUITE_P(Swin, Stages, testing::Values("swin_base", "swin_classify", "swin_odd"));

TEST(Stage, WeightsAreThoseOfARecorder) {
  const auto path = test::golden("models/swin_odd");
  Page page(load_model(path), path);
  const std::string trace = page.trace();
  Recorder recorder;
  {
    // What the page shows where no image is given.
    ModelInput input;
    input.pixel_values = Tensor::zeros({1, 1, 22, 22});
    for (int64_t i = 0; i < 22 * 22; ++i) {
      const double y = static_cast<double>(i / 22) / 22 - 0.5;
      const double x = static_cast<double>(i % 22) / 22 - 0.5;
      input.pixel_values.data<float>()[i] = x * x + y * y < 0.09 ? 1.0F : -1.0F;
    }
    const NoGrad no_grad;
    page.model_.model->forward(input);
  }
  const auto compare = [&](const std::string& kind, int64_t layer, int64_t number) {
    const Json tile =
        page.post(trace + "/tile",
                  at_place(kind, layer, 0, R"("what":"weights","level":0,"row":0,"column":0)"));
    const std::vector<double> shown = values_of(tile.at("values"));
    const std::vector<double> engine =
        recorder.at("self", number).record.weights(0, 0).to_doubles();
    ASSERT_EQ(shown.size(), engine.size());
    for (size_t i = 0; i < shown.size(); ++i) {
      ASSERT_NEAR(shown[i], engine[i], 1e-6) << kind << " " << layer << " " << i;
    }
  };
  compare("stage0", 0, 0);
  compare("stage0", 1, 1);
  compare("stage1", 0, 2);
  compare("stage1", 1, 3);
  compare("stage2", 0, 4);
}

TEST(Stage, APlaceThatOnlyFillsUpAWindowHasNoSteps) {
  const auto path = test::golden("models/swin_odd");
  Page page(load_model(path), path);  // 11 × 11 patches in windows of 2 × 2: a grid of 12 × 12
  const std::string trace = page.trace();
  EXPECT_EQ(page.made->at("sides").at("source")[11].string("label"), "pad");
  EXPECT_EQ(page.made->at("sides").at("source")[12].string("label"), "1,0");
  page.post(trace + "/steps", at_place("stage0", 0, 0, R"("query":11)"), 409);
  page.post(trace + "/why", at_place("stage0", 0, 0, R"("query":10,"key":11)"), 409);
  page.post(trace + "/steps", at_place("stage0", 0, 0, R"("query":10)"));
}

TEST(Stage, AHeadOfALaterStageIsAblated) {
  const auto path = test::golden("models/swin_classify");
  Page page(load_model(path), path);
  const std::string trace = page.trace();
  const auto kl = [&](double scale) {
    return page
        .post(trace + "/experiment",
              fmt::format(R"({{"interventions":[{{"type":"head","kind":"stage1","layer":0,)"
                          R"("head":1,"scale":{}}}]}})",
                          scale))
        .at("kl")
        .number();
  };
  EXPECT_NEAR(kl(1.0), 0.0, 1e-12);
  EXPECT_GT(kl(0.0), 1e-9);
}

std::unique_ptr<Model> regressor(const std::string& more = "") {
  std::string stacks;
  for (const char* stack : {"encoder", "decoder"}) {
    stacks += fmt::format(R"(,"{0}_layers":2,"{0}_attention_heads":2,"{0}_ffn_dim":16)", stack);
  }
  return create_model(R"({"model_type":"heed-regressor","d_model":8,)"
                      R"("max_position_embeddings":16)" +
                          stacks + more + "}",
                      7);
}

TEST(Regressor, NumbersGoInAndANumberComesOut) {
  Page page(regressor());
  const Json about = page.about();
  EXPECT_EQ(about.string("answers"), "number");
  EXPECT_TRUE(about.at("can").boolean("why"));
  EXPECT_FALSE(about.at("can").boolean("lens"));
  const std::string trace = page.trace(R"(,"text":"1, 2.5 -3")");
  const Json source = page.made->at("sides").at("source"),
             target = page.made->at("sides").at("target");
  ASSERT_EQ(source.size(), 3U);
  EXPECT_EQ(source[1].string("label"), "2.5");
  ASSERT_EQ(target.size(), 3U);
  EXPECT_TRUE(page.made->boolean("generated"));
  const std::vector<double> wanted = predict_numbers(
      *page.model_.model, Tensor::from(std::vector<float>{1.0F, 2.5F, -3.0F}, {1, 3, 1}), 3);
  for (int64_t position = 0; position < 3; ++position) {
    const Json found = page.post(trace + "/predict", fmt::format(R"({{"position":{}}})", position));
    EXPECT_EQ(found.at("candidates").size(), 0U);
    EXPECT_NEAR(found.at("value")[0].number(), wanted[static_cast<size_t>(position)], 1e-5);
  }
  for (const Json& each : page.made->at("attentions").elements()) {
    for (int64_t layer = 0; layer < each.integer("layers", 1, 9); ++layer) {
      check_why(page, trace, each.string("kind"), layer, 2, 1);
      check_steps(page, trace, each.string("kind"), layer, 2, false);
    }
  }
}

TEST(Regressor, AnExperimentComparesNumbers) {
  Page page(regressor());
  const std::string trace = page.trace(R"(,"text":"1 2 3")");
  const auto with = [&](double scale) {
    return page.post(trace + "/experiment",
                     fmt::format(R"({{"interventions":[{{"type":"head","kind":"cross","layer":1,)"
                                 R"("head":0,"scale":{}}}]}})",
                                 scale));
  };
  const auto value = [](const Json& of) { return of.at("value")[0].number(); };
  const Json same = with(1.0), other = with(0.0);
  EXPECT_NEAR(value(same.at("before")), value(same.at("after")), 1e-5);
  EXPECT_GT(std::abs(value(other.at("before")) - value(other.at("after"))), 1e-6);
}

TEST(Regressor, SeveralNumbersAtEachPosition) {
  Page page(regressor(R"(,"input_size":2,"output_size":3)"));
  const std::string trace = page.trace(R"(,"text":"1 2 3 4")");
  EXPECT_EQ(page.made->at("sides").at("source").size(), 2U);
  EXPECT_EQ(page.made->at("sides").at("source")[1].string("label"), "3, 4");
  EXPECT_EQ(page.made->at("prediction").at("value").size(), 3U);
  page.post("traces", R"({"model":"m","text":"1 2 3"})", 400);
  page.post("traces", R"({"model":"m","text":"one two"})", 400);
  page.post("traces", R"({"model":"m","text":""})", 400);
}

}  // namespace
}  // namespace heed
