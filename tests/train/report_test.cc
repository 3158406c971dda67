// What a run says of itself at its end, and the defaults that it begins with.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "heed/models.h"
#include "heed/runtime.h"
#include "heed/tensor.h"
#include "heed/train.h"
#include "support/data.h"
#include "support/error.h"
#include "train/class_report.h"
#include "train/run_report.h"
#include "train/task_config.h"

namespace heed {
namespace {

LossCurves curves(std::vector<double> train, std::vector<double> validation) {
  LossCurves result;
  for (size_t i = 0; i < train.size(); ++i) {
    result.steps.push_back(static_cast<double>(i + 1));
  }
  for (size_t i = 0; i < validation.size(); ++i) {
    result.validation_steps.push_back(static_cast<double>((i + 1) * 10));
  }
  result.train = std::move(train);
  result.validation = std::move(validation);
  return result;
}

TEST(RunReport, NamesOverfitting) {
  const std::string text =
      curves_verdict(curves({5, 4, 3, 2.5, 2, 1.8, 1.6, 1.5, 1.45, 1.42}, {4, 3.5, 4.2, 5.82}));
  EXPECT_NE(text.find("Overfitting"), std::string::npos) << text;
  EXPECT_NE(text.find("1.42"), std::string::npos) << text;
  EXPECT_NE(text.find("3.5 at step 20"), std::string::npos) << text;
  EXPECT_NE(text.find("more dropout"), std::string::npos) << text;
}

TEST(RunReport, TellsOtherCurvesApart) {
  const std::vector<double> falling = {5, 4.5, 4, 3.5, 3, 2.8, 2.5, 2.3, 2.1, 2.0};
  EXPECT_NE(curves_verdict(curves(falling, {4, 3.5, 3, 2.5, 2.2})).find("still falling"),
            std::string::npos);
  EXPECT_NE(curves_verdict(curves(falling, {2.3, 2.2, 2.2, 2.2})).find("levelled off"),
            std::string::npos);
  EXPECT_NE(curves_verdict(curves(falling, {4.1, 4.0, 4.0, 4.0})).find("much better"),
            std::string::npos);
  EXPECT_NE(curves_verdict(curves({2, 2, 2, 2.5, 3, 4}, {})).find("did not fall"),
            std::string::npos);
  EXPECT_EQ(curves_verdict(curves({2, 1}, {2, 1, 1})), "");
  EXPECT_NE(curves_verdict(curves(falling, {4, 3.5, 3.3, 3, 2.5, 2.4, 2.5})).find("still falling"),
            std::string::npos);  // the last evaluation alone is a little worse
  const std::vector<double> solved = {1500, 90, 10, 1, 0.1, 0.1, 0.1, 0.05, 0.02, 0.013};
  EXPECT_NE(curves_verdict(curves(solved, {85, 0.1, 0.007, 0.018})).find("little left to learn"),
            std::string::npos);  // noise about 0 is no overfitting
}

TEST(ClassReport, ShowsTheClassesAndTheMajorityAnswer) {
  // 9 of 10 are "yes", and the model says nothing else.
  const std::vector<int64_t> truth = {1, 1, 1, 1, 1, 1, 1, 1, 1, 0};
  const ClassScores scores = class_scores(truth, std::vector<int64_t>(10, 1), 2);
  EXPECT_NEAR(scores.binary_f1, 0.947, 1e-3);
  EXPECT_NEAR(scores.macro_f1, 0.474, 1e-3);
  ASSERT_EQ(scores.classes.size(), 2U);
  EXPECT_DOUBLE_EQ(scores.classes[1].precision, 0.9);
  EXPECT_DOUBLE_EQ(scores.classes[1].recall, 1.0);
  EXPECT_EQ(scores.classes[0].support, 1);
  EXPECT_EQ(scores.confusion, (std::vector<std::vector<int64_t>>{{0, 1}, {0, 9}}));
  const std::string table = class_table({"no", "yes"}, scores);
  EXPECT_NE(table.find("always answers 'yes'"), std::string::npos) << table;
  EXPECT_NE(table.find("0.9474"), std::string::npos) << table;
  const std::string svg = to_svg(confusion_map({"no", "yes"}, scores));
  EXPECT_NE(svg.find(">9</text>"), std::string::npos);
  EXPECT_NE(svg.find("Predicted class"), std::string::npos);
}

TEST(ClassReport, SaysNothingOfAModelThatTellsClassesApart) {
  const ClassScores scores = class_scores({0, 1, 1}, {0, 1, 0}, 2);
  EXPECT_EQ(class_table({"no", "yes"}, scores).find("always"), std::string::npos);
  const ClassScores one_class = class_scores({1, 1}, {1, 1}, 2);  // nothing else was asked
  EXPECT_EQ(class_table({"no", "yes"}, one_class).find("always"), std::string::npos);
}

TEST(TrainDefaults, ARateByWhatIsTrained) {
  TrainOptions options;
  options.task = "classify";
  EXPECT_DOUBLE_EQ(resolve_train_options(options).lr, 1e-3);
  EXPECT_EQ(resolve_train_options(options).best_by, "f1_macro");
  options.task = "translate";
  EXPECT_EQ(resolve_train_options(options).best_by, "chrf");
  options.best_by = "bleu";
  options.lr = 0.5;
  EXPECT_DOUBLE_EQ(resolve_train_options(options).lr, 0.5);
  EXPECT_EQ(resolve_train_options(options).best_by, "bleu");
  options.best_by = "accuracy";
  EXPECT_ERROR(check_train_options(options), "best_by: 'accuracy' is no metric of task translate");
}

TEST(TrainDefaults, APresetMayStandInTheFile) {
  TrainOptions options;
  parse_train_options("task = \"lm\"\npreset = \"small\"\nbatch = 3\n", "run.toml", options);
  EXPECT_EQ(options.layers, 6);
  EXPECT_EQ(options.width, 384);
  EXPECT_EQ(options.batch, 3);  // the file's own values go over it
  TrainOptions other;
  parse_train_options("task = \"lm\"\npreset = \"small\"\n", "run.toml", other, true);
  EXPECT_EQ(other.layers, TrainOptions().layers);
  EXPECT_ERROR(parse_train_options("task = \"lm\"\npreset = \"huge\"\n", "run.toml", options),
               "preset: there is no 'huge' for task 'lm'; give a task and tiny, small or base");
}

TEST(Captions, RegionsWithAnOrderHavePositions) {
  TrainOptions options;
  options.task = "caption";
  options.layers = 1;
  options.heads = 2;
  options.width = 16;
  options.context = 8;
  const auto logits = [&](bool ordered, const Tensor& features) {
    Config config = fresh_config(options, "heed-captioner", 12);
    config.set("feature_size", 4);
    config.set("region_positions", ordered);
    const auto model = create_model(config.build(), 1);
    const NoGrad no_grad;
    ModelInput input;
    input.features = features;
    input.decoder_input_ids = Tensor::from(std::vector<int64_t>{1, 2}, {1, 2});
    return model->forward(input).logits.to_doubles();
  };
  const Tensor frames = Tensor::from({1.F, 0.F, 0.F, 0.F, 0.F, 2.F, 0.F, 0.F}, {1, 2, 4});
  const Tensor reversed = Tensor::from({0.F, 2.F, 0.F, 0.F, 1.F, 0.F, 0.F, 0.F}, {1, 2, 4});
  const std::vector<double> a = logits(true, frames), b = logits(true, reversed);
  const std::vector<double> c = logits(false, frames), d = logits(false, reversed);
  double with = 0, without = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    with = std::max(with, std::abs(a[i] - b[i]));
    without = std::max(without, std::abs(c[i] - d[i]));
  }
  EXPECT_GT(with, 1e-3);
  EXPECT_LT(without, 1e-5);
}

}  // namespace
}  // namespace heed
