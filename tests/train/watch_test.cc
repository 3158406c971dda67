#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/file.h"
#include "base/language.h"
#include "heed/io.h"
#include "heed/lessons.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "heed/train.h"
#include "io/json.h"
#include "support/check.h"
#include "support/data.h"
#include "support/error.h"
#include "train/memory_plan.h"
#include "train/metric_names.h"
#include "train/progress_line.h"
#include "train/task.h"

namespace heed::test {
namespace {

/// A run that turns letters around.
TrainOptions small_translation(const TemporaryFolder& folder, const std::string& name) {
  const auto data = folder / "reverse.tsv";
  if (!std::filesystem::exists(data)) {
    write_synthetic_dataset("reverse", {}, 64, data);
  }
  TrainOptions o;
  o.task = "translate";
  o.data = data.string();
  o.tokenizer = "char";
  o.validation_fraction = 0.25;
  o.layers = 1, o.heads = 2, o.width = 16, o.context = 32, o.batch = 8;
  o.steps = 12, o.warmup = 2, o.eval_every = 4, o.checkpoint_every = 4;
  o.quiet = true;
  o.out = folder / name;
  return o;
}

std::vector<Json> lines_of(const std::filesystem::path& file) {
  std::istringstream text(read_file(file));
  std::vector<Json> lines;
  for (std::string line; std::getline(text, line);) {
    lines.push_back(Json::parse(line, file.native()));
  }
  return lines;
}

TEST(Watching, TheLiveLine) {
  TrainProgress progress{.step = 120,
                         .steps = 5000,
                         .loss = 2.31,
                         .validation = 2.4,
                         .norm = 0.8,
                         .lr = 3e-4,
                         .seconds = 0.041,
                         .tokens_per_second = 12400.0,
                         .examples_per_second = 16.0};
  EXPECT_EQ(
      format_progress(progress, 200),
      "step 120/5000 | loss 2.310 | val 2.400 | norm 0.80 | lr 3.0e-04 | 41 ms | 12.4k tok/s | "
      "ETA 3m20s");
  progress.tokens_per_second = 0.0;  // pictures
  EXPECT_NE(format_progress(progress, 200).find("| 16 examples/s |"), std::string::npos);
}

TEST(Watching, TheLiveLineInKorean) {
  const auto remaining = [](double seconds) {
    const std::string line = format_progress({.step = 1, .steps = 2}, seconds);
    return line.substr(line.rfind('|') + 2);
  };
  EXPECT_EQ(remaining(0), "ETA 0s");
  EXPECT_EQ(remaining(3 * 3600 + 5 * 60), "ETA 3h05m");
  set_message_language("ko");
  EXPECT_EQ(remaining(0), "남은 시간 0초");
  EXPECT_EQ(remaining(200), "남은 시간 3분 20초");
  EXPECT_EQ(remaining(3 * 3600 + 5 * 60), "남은 시간 3시간 05분");
  EXPECT_EQ(metric_name("recall_10"), "재현율@10");
  set_message_language("en");
  EXPECT_EQ(metric_name("ndcg_10"), "nDCG@10");
  EXPECT_EQ(metric_name("ndcg_10_of_64"), "nDCG@10 of 64 numbers");
  EXPECT_EQ(metric_name("exact_match"), "exact match");
}

TEST(Watch, EvaluationsHaveTheTasksFigures) {
  const TemporaryFolder folder;
  const TrainOptions o = small_translation(folder, "run");
  const TrainResult result = train(o);
  int evaluations = 0, finals = 0;
  for (const Json& line : lines_of(o.out / "metrics.jsonl")) {
    for (const char* key : {"step", "loss", "tokens_per_second", "seconds"}) {
      EXPECT_TRUE(line.has(key)) << key;
    }
    if (line.has("val_loss")) {
      ++evaluations;
      finals += line.boolean_or("final", false);
      EXPECT_TRUE(line.has("val_bleu") && line.has("val_chrf") && line.has("val_exact_match"));
    }
  }
  EXPECT_EQ(evaluations, 4) << "steps 4, 8 and 12, and the best one at the end";
  EXPECT_EQ(finals, 1);
  ASSERT_FALSE(result.metrics.empty());
  EXPECT_EQ(result.metrics.front().first, "val_bleu");
  EXPECT_EQ(result.samples.size(), 3u);
  const std::vector<Json> samples = lines_of(o.out / "samples.jsonl");
  EXPECT_EQ(samples.size(), 9u);
  EXPECT_EQ(samples.back().string("target"), result.samples.back().target);
}

TEST(Watch, SnapshotsHoldRowsThatSumToOne) {
  const TemporaryFolder folder;
  TrainOptions o = small_translation(folder, "run");
  o.probes = 1;
  train(o);
  for (const char* step : {"000004", "000008", "000012"}) {
    const auto file = o.out / "snapshots" / (std::string("step-") + step + ".safetensors");
    const TensorMap tensors = load_safetensors(file);
    ASSERT_EQ(tensors.size(), 3u);
    for (const char* kind : {"encoder", "decoder", "cross"}) {
      const Tensor heads = tensors.at("probe.0." + std::string(kind) + "_attentions.0");
      ASSERT_EQ(heads.size(0), 2);
      const std::vector<double> values = heads.to(DType::f32).to_doubles();
      const auto columns = static_cast<size_t>(heads.size(2));
      for (size_t begin = 0; begin < values.size(); begin += columns) {
        double sum = 0.0;
        for (size_t i = 0; i < columns; ++i) {
          sum += values[begin + i];
        }
        EXPECT_NEAR(sum, 1.0, 1e-2) << kind << " (f16)";
      }
    }
    const Json probes = Json::parse(safetensors_metadata(file).at("probes"), "probes");
    EXPECT_EQ(static_cast<int64_t>(probes[0].at("tokens").size()),
              tensors.at("probe.0.encoder_attentions.0").size(2));
    EXPECT_EQ(static_cast<int64_t>(probes[0].at("target_tokens").size()),
              tensors.at("probe.0.cross_attentions.0").size(1));
  }
}

TEST(Watch, AveragedWeightsResumeBitIdentically) {
  const TemporaryFolder folder;
  TrainOptions whole = small_translation(folder, "whole");
  whole.ema = 0.9;
  train(whole);
  TrainOptions cut = whole;
  cut.out = folder / "cut";
  std::filesystem::copy(whole.out, cut.out, std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(cut.out / "checkpoints/step-000012");
  cut.resume = true;
  train(cut);
  for (const char* name : {"checkpoints/step-000012/model.safetensors",
                           "checkpoints/step-000012/ema.safetensors", "model/model.safetensors"}) {
    EXPECT_EQ(read_file(cut.out / name), read_file(whole.out / name)) << name;
  }
  EXPECT_NE(read_file(whole.out / "checkpoints/step-000012/model.safetensors"),
            read_file(whole.out / "checkpoints/step-000012/ema.safetensors"));
  EXPECT_EQ(read_file(cut.out / "samples.jsonl"), read_file(whole.out / "samples.jsonl"));
}

TEST(Watch, PatienceStopsARunThatGetsNoBetter) {
  const TemporaryFolder folder;
  TrainOptions o = small_translation(folder, "run");
  o.lr = 1e-12;  // nothing changes: the first evaluation stays the best
  o.steps = 400;
  o.patience = 2;
  const TrainResult result = train(o);
  EXPECT_EQ(result.steps, 12) << "the first evaluation and two more";
  EXPECT_FALSE(result.interrupted);
  EXPECT_TRUE(std::filesystem::exists(o.out / "checkpoints/step-000012"));
  o.resume = true;
  EXPECT_EQ(train(o).steps, 12) << "a stopped run stays stopped";
}

TEST(Watch, TheModelKeptIsTheBestOne) {
  const TemporaryFolder folder;
  TrainOptions o = small_translation(folder, "run");
  o.steps = 40;
  o.lr = 3e-3;
  o.keep = 100;
  train(o);
  double best = -1.0, loss = 0.0;
  int64_t best_step = 0;
  for (const Json& line : lines_of(o.out / "metrics.jsonl")) {
    if (!line.has("val_bleu") || line.boolean_or("final", false)) {
      continue;
    }
    const double bleu = line.number("val_bleu", 0, 100);
    const double now = line.number("val_loss", 0, 100);
    if (bleu > best || (bleu == best && now < loss)) {
      best = bleu, loss = now, best_step = line.integer("step", 0, 100);
    }
  }
  char name[64];
  std::snprintf(name, sizeof(name), "checkpoints/step-%06d/model.safetensors",
                static_cast<int>(best_step));
  const TensorMap kept = load_safetensors(o.out / "model/model.safetensors");
  for (const auto& [key, tensor] : load_safetensors(o.out / name)) {
    EXPECT_EQ(kept.at(key).to_doubles(), tensor.to_doubles()) << key << " of " << name;
  }
}

/// Peak of the allocator over two steps beside what was said before.
void expect_plan(TrainOptions o, const char* what) {
  const int64_t before = memory_stats().in_use;
  MemoryPlan plan;
  {
    const Task task = make_task(o);
    for (const Parameter& parameter : task.model->parameters()) {
      Tensor(parameter.tensor).set_requires_grad(true);
    }
    plan = plan_memory(task, o);
  }
  release_cached_memory();
  reset_peak_memory();
  train(o);
  const auto peak = static_cast<double>(memory_stats().peak - before);
  constexpr double kProcess = 48 << 20;  // the plan's share for the program itself
  const double said = static_cast<double>(plan.peak) - kProcess;
  EXPECT_GT(said, 0.75 * peak) << what << ": " << describe(plan);
  EXPECT_LT(said, 1.25 * peak) << what << ": " << describe(plan);
}

TEST(MemoryPlan, IsWithinAQuarterOfThePeak) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    text += "the " + std::to_string(i % 97) + " cats sat on the mat. ";
  }
  write_file_atomically(folder / "text.txt", text);
  TrainOptions o;
  o.task = "lm";
  o.data = (folder / "text.txt").string();
  o.tokenizer = "char";
  o.layers = 4, o.heads = 4, o.width = 128, o.context = 128, o.batch = 8;
  o.steps = 2, o.eval_every = 100, o.probes = 0, o.validation_fraction = 0.0;
  o.quiet = true;
  o.out = folder / "activations";
  expect_plan(o, "activations");
  TrainOptions recompute = o;
  recompute.recompute = true;
  recompute.out = folder / "recompute";
  expect_plan(recompute, "recompute");
  TrainOptions weights = o;
  weights.width = 256, weights.context = 16, weights.batch = 2;
  weights.out = folder / "weights";
  expect_plan(weights, "weights");
  TrainOptions pairs = small_translation(folder, "pairs");
  pairs.width = 64, pairs.batch = 32, pairs.steps = 2, pairs.eval_every = 100, pairs.probes = 0;
  pairs.arch = "marian", pairs.layers = 3, pairs.validation_fraction = 0.0;
  expect_plan(pairs, "translation");
  TrainOptions micro = o;
  micro.micro_batch = 2;
  micro.out = folder / "micro";
  expect_plan(micro, "micro-batches");
}

TEST(Watch, TheTutorialsRegressionEndsBelowOne) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "one.jsonl",
                        "{\"input\": [10,20,30,40,50], \"target\": [12,22,32,42,52]}\n");
  TrainOptions o;
  o.task = "regress";
  o.data = (folder / "one.jsonl").string();
  o.layers = 2, o.heads = 2, o.width = 16, o.ff = 32, o.dropout = 0.0;
  o.epochs = 500, o.lr = 1e-3, o.warmup = 0, o.schedule = "constant", o.weight_decay = 0.0;
  o.clip = 0.0, o.eval_every = 500, o.checkpoint_every = 500, o.quiet = true;
  o.out = folder / "run";
  const TrainResult result = train(o);
  EXPECT_EQ(result.steps, 500);
  EXPECT_LT(result.loss, 1.0);
  ASSERT_EQ(result.samples.size(), 1u);
  EXPECT_EQ(result.samples[0].target, "[12, 22, 32, 42, 52]");
}

TEST(MemoryPlan, RefusesWhatWillNotFitAndSaysWhatToChange) {
  MemoryPlan plan;
  plan.weights = plan.gradients = int64_t{1} << 30;
  plan.optimizer = int64_t{2} << 30;
  plan.activations = int64_t{20} << 30;
  plan.peak = int64_t{24} << 30;
  plan.rows = 32;
  TrainOptions o;
  check_memory(plan, o, int64_t{25} << 30);
  const Tensor in_use = Tensor::zeros({8});
  check_memory(plan, o, INT64_MAX);  // not known
  try {
    check_memory(plan, o, int64_t{10} << 30);
    FAIL() << "it does not fit";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::runtime);
    for (const char* word : {"a micro-batch of 8", "recompute", "context", "force", "free"}) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  }
  o.force = true;
  check_memory(plan, o, int64_t{10} << 30);
  TrainOptions huge;
  huge.width = 100000;
  huge.layers = 1000;
  EXPECT_ERROR(check_model_fits(huge, 50000),
               "Try a smaller width or fewer layers, or force to start all the same");
}

}  // namespace
}  // namespace heed::test
