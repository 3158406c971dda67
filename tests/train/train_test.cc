#include "heed/train.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/file.h"
#include "heed/io.h"
#include "heed/runtime.h"
#include "support/check.h"
#include "support/data.h"
#include "support/error.h"
#include "train/small_run.h"

namespace heed::test {
namespace {

std::string weights_of(const TrainOptions& options) {
  return read_file(options.out / "checkpoints" / "step-000012" / "model.safetensors");
}

TEST(Train, LossFallsAndTheRunFolderIsWhole) {
  const TemporaryFolder folder;
  TrainOptions options = small_run(folder, "run");
  options.steps = 60;
  const TrainResult result = train(options);
  EXPECT_EQ(result.steps, 60);
  EXPECT_LT(result.val_loss, 3.0);
  for (const char* name : {"config.toml", "metrics.jsonl", "model/config.json",
                           "model/model.safetensors", "model/tokenizer.json"}) {
    EXPECT_TRUE(std::filesystem::exists(options.out / name)) << name;
  }
  TrainOptions again;
  read_train_options(options.out / "config.toml", again);
  EXPECT_EQ(dump_train_options(again), dump_train_options(resolve_train_options(options)));
}

TEST(Train, SameWeightsForAnyThreadCountAndMicroBatchesAgree) {
  const TemporaryFolder folder;
  std::string first;
  for (const int threads : {1, 3}) {
    set_thread_count(threads);
    const TrainOptions options = small_run(folder, "run" + std::to_string(threads));
    train(options);
    if (first.empty()) {
      first = weights_of(options);
    }
    EXPECT_TRUE(weights_of(options) == first) << threads << " threads";
  }
  set_thread_count(2);
  TrainOptions micro = small_run(folder, "micro");
  micro.dropout = 0.0;
  TrainOptions whole = micro;
  whole.out = folder / "whole";
  micro.micro_batch = 1;
  train(micro);
  train(whole);
  const TensorMap a = load_safetensors(micro.out / "checkpoints/step-000012/model.safetensors");
  const TensorMap b = load_safetensors(whole.out / "checkpoints/step-000012/model.safetensors");
  for (const auto& [name, tensor] : a) {
    expect_close(tensor, b.at(name), {1e-3, 1e-4}, name);
  }
}

TEST(Train, ResumesBitIdenticallyEvenFromABrokenCheckpoint) {
  const TemporaryFolder folder;
  const TrainOptions whole = small_run(folder, "whole");
  train(whole);
  // The same run, cut after step 8 by taking its last checkpoint away …
  TrainOptions cut = whole;
  cut.out = folder / "cut";
  std::filesystem::copy(whole.out, cut.out, std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(cut.out / "checkpoints/step-000012");
  cut.resume = true;
  train(cut);
  EXPECT_TRUE(weights_of(cut) == weights_of(whole));
  EXPECT_EQ(read_file(cut.out / "model/model.safetensors"),
            read_file(whole.out / "model/model.safetensors"));
  // … and with one bit of the last checkpoint flipped: the one before it is used.
  TrainOptions broken = whole;
  broken.out = folder / "broken";
  std::filesystem::copy(whole.out, broken.out, std::filesystem::copy_options::recursive);
  const auto file = broken.out / "checkpoints/step-000012/optimizer.safetensors";
  std::string bytes = read_file(file);
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(file, std::ios::binary) << bytes;
  broken.resume = true;
  train(broken);
  EXPECT_TRUE(weights_of(broken) == weights_of(whole));
}

TEST(Train, ShortActivationsTrainAsWellAndResumeExactly) {
  const TemporaryFolder folder;
  const TrainOptions wide = small_run(folder, "f32");
  const double expected = train(wide).loss;
  for (const char* precision : {"bf16", "f16"}) {
    TrainOptions whole = small_run(folder, precision);
    whole.precision = precision;
    EXPECT_NEAR(train(whole).loss, expected, 0.02) << precision;
    EXPECT_TRUE(weights_of(whole) != weights_of(wide)) << precision << " had no effect";
    TrainOptions cut = whole;
    cut.out = folder / (std::string(precision) + "-cut");
    std::filesystem::copy(whole.out, cut.out, std::filesystem::copy_options::recursive);
    std::filesystem::remove_all(cut.out / "checkpoints/step-000012");
    cut.resume = true;
    train(cut);
    EXPECT_TRUE(weights_of(cut) == weights_of(whole)) << precision;
  }
}

TEST(Train, RefusesWhatMakesNoSense) {
  const TemporaryFolder folder;
  const TrainOptions options = small_run(folder, "run");
  train(options);
  EXPECT_ERROR(train(options), "holds a run already; resume it, or write to another folder")
      << "the folder holds a run already";
  TrainOptions other = options;
  other.resume = true;
  other.lr = 0.5;
  EXPECT_ERROR(train(other), "the run was started with other options: lr = 0.001 → 0.5")
      << "other options";
  TrainOptions task = small_run(folder, "task");
  task.task = "dance";
  EXPECT_ERROR(train(task), "'dance' is not one of lm, mlm");
  TrainOptions arch = small_run(folder, "arch");
  arch.arch = "vit";
  EXPECT_ERROR(train(arch), "'vit' cannot be trained for task lm; use gpt2");
  TrainOptions out = small_run(folder, "x");
  out.out = "/proc/nowhere";
  EXPECT_ERROR(train(out), "/proc/nowhere/checkpoints: cannot be created")
      << "unwritable, before step 1";
  TrainOptions frozen = small_run(folder, "frozen");
  frozen.freeze = {""};
  EXPECT_ERROR(train(frozen), "freeze: leaves nothing to train") << "nothing to train";
}

}  // namespace
}  // namespace heed::test
