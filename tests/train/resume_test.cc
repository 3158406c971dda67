#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/file.h"
#include "heed/runtime.h"
#include "heed/train.h"
#include "io/json.h"
#include "support/check.h"
#include "support/data.h"
#include "train/small_run.h"

namespace heed::test {
namespace {

namespace fs = std::filesystem;

/// A run with many checkpoints.
TrainOptions saved_run(const TemporaryFolder& folder, const std::string& name) {
  TrainOptions options = small_run(folder, name);
  options.steps = 8, options.checkpoint_every = 2, options.eval_every = 4, options.probes = 0;
  return options;
}

/// A copy of the run, to go on with.
TrainOptions copy_of(const TrainOptions& run, const TemporaryFolder& folder, const char* name) {
  TrainOptions copy = run;
  copy.out = folder / name;
  copy.resume = true;
  fs::remove_all(copy.out);
  fs::copy(run.out, copy.out, fs::copy_options::recursive);
  return copy;
}

std::string checkpoint_file(const TrainOptions& run, int step, const char* name) {
  return (run.out / "checkpoints" / ("step-00000" + std::to_string(step)) / name).string();
}

void replace_in(const std::string& file, const std::string& from, const std::string& to) {
  std::string text = read_file(file);
  const size_t place = text.find(from);
  ASSERT_NE(place, std::string::npos) << file << " has no " << from;
  std::ofstream(file, std::ios::binary) << text.replace(place, from.size(), to);
}

std::string message_of(const TrainOptions& options, ErrorKind kind) {
  try {
    train(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "was accepted";
  return {};
}

TEST(Resume, OtherOptionsAreNamedAndNothingIsLost) {
  const TemporaryFolder folder;
  const TrainOptions whole = saved_run(folder, "whole");
  train(whole);
  TrainOptions other = copy_of(whole, folder, "other");
  const std::string before = read_file(checkpoint_file(other, 8, "model.safetensors"));
  other.width = 32;  // its weights do not even fit
  other.steps = 9;
  const std::string message = message_of(other, ErrorKind::data);
  EXPECT_NE(message.find("width = 16 → 32, steps = 8 → 9"), std::string::npos) << message;
  EXPECT_EQ(read_file(checkpoint_file(other, 8, "model.safetensors")), before);
  TrainOptions more = copy_of(whole, folder, "more");
  more.keep = 5;  // says nothing about the weights
  train(more);
}

TEST(Resume, OtherDataIsNamedEvenWithAnotherVocabulary) {
  const TemporaryFolder folder;
  const TrainOptions whole = saved_run(folder, "whole");
  train(whole);
  const TrainOptions other = copy_of(whole, folder, "other");
  write_file_atomically(folder / "text.txt", read_file(folder / "text.txt") + "Zebra!");
  const std::string message = message_of(other, ErrorKind::data);
  EXPECT_TRUE(message.starts_with(other.data + ": resume: the data")) << message;
}

TEST(Resume, AChangedStateIsDamage) {
  const TemporaryFolder folder;
  const TrainOptions whole = saved_run(folder, "whole");
  train(whole);
  for (const auto& [from, to] : {std::pair{"\"step\": 8", "\"step\": 7"},
                                 {"\"random_stream\": \"", "\"random_stream\": \"x"},
                                 {"\"seed\": \"0\"", "\"seed\": \"1\""},
                                 {"\"checksums\"", "\"checksumt\""},
                                 {"\"model.safetensors\"", "\"ema.safetensors\""},
                                 {"\"checksums\": {", "\"checksums\": {}, \"others\": {"}}) {
    const TrainOptions changed = copy_of(whole, folder, "changed");
    replace_in(checkpoint_file(changed, 8, "state.json"), from, to);
    train(changed);
    for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
      EXPECT_EQ(read_file(checkpoint_file(changed, 8, name)),
                read_file(checkpoint_file(whole, 8, name)))
          << name << " after " << to;
    }
  }
}

TEST(Resume, WithoutAUsableCheckpointNothingBeginsAnew) {
  const TemporaryFolder folder;
  const TrainOptions whole = saved_run(folder, "whole");
  train(whole);
  const TrainOptions broken = copy_of(whole, folder, "broken");
  for (const int step : {6, 8}) {
    fs::resize_file(checkpoint_file(broken, step, "model.safetensors"), 50);
  }
  const std::string message = message_of(broken, ErrorKind::data);
  EXPECT_NE(message.find("none of its 2 checkpoints can be used"), std::string::npos) << message;
  EXPECT_TRUE(fs::exists(broken.out / "model/model.safetensors"));
}

TEST(Resume, ABrokenCheckpointIsNoneOfTheLast) {
  const TemporaryFolder folder;
  TrainOptions whole = saved_run(folder, "whole");
  whole.checkpoint_every = 4;
  train(whole);
  TrainOptions broken = copy_of(whole, folder, "broken");
  fs::resize_file(checkpoint_file(broken, 8, "model.safetensors"), 50);
  fs::create_directory(broken.out / "checkpoints/tmp.1");  // of a process that was killed
  broken.keep = 1;
  broken.checkpoint_every = 1;
  train(broken);
  EXPECT_EQ(read_file(checkpoint_file(broken, 8, "model.safetensors")),
            read_file(checkpoint_file(whole, 8, "model.safetensors")));
  EXPECT_EQ(std::distance(fs::directory_iterator(broken.out / "checkpoints"), {}), 1);
}

TEST(Resume, ARunWithoutACheckpointBeginsAnewWithItsLog) {
  const TemporaryFolder folder;
  const TrainOptions whole = saved_run(folder, "whole");
  train(whole);
  const TrainOptions killed = copy_of(whole, folder, "killed");
  fs::remove_all(killed.out / "checkpoints");
  EXPECT_GT(train(killed).loss, 0.0);
  std::istringstream lines(read_file(killed.out / "metrics.jsonl"));
  int64_t last = 0;
  for (std::string line; std::getline(lines, line);) {
    const int64_t step = Json::parse(line, "metrics.jsonl").integer("step", 1, 8);
    EXPECT_TRUE(step == last || step == last + 1) << line;
    last = step;
  }
  EXPECT_GT(train(copy_of(killed, folder, "done")).loss, 0.0) << "a run that was over already";
}

TEST(TrainOptions, NumbersThatMakeNoSenseAreNamed) {
  const TemporaryFolder folder;
  const std::pair<const char*, void (*)(TrainOptions&)> cases[] = {
      {"layers: ", [](TrainOptions& o) { o.layers = -1; }},
      {"batch: ", [](TrainOptions& o) { o.batch = 0; }},
      {"micro_batch: ", [](TrainOptions& o) { o.micro_batch = -1; }},
      {"steps: ", [](TrainOptions& o) { o.steps = -1; }},
      {"keep: ", [](TrainOptions& o) { o.keep = -1; }},
      {"lr: ", [](TrainOptions& o) { o.lr = -0.1; }},
      {"clip: ", [](TrainOptions& o) { o.clip = 1e99; }},
      {"label_smoothing: ", [](TrainOptions& o) { o.label_smoothing = 2.0; }},
      {"validation_fraction: ", [](TrainOptions& o) { o.validation_fraction = 1.0; }},
      {"precision: ", [](TrainOptions& o) { o.precision = "q8_0"; }},
      {"width: ", [](TrainOptions& o) { o.width = 15; }}};
  for (const auto& [name, change] : cases) {
    TrainOptions options = saved_run(folder, "run");
    change(options);
    EXPECT_TRUE(message_of(options, ErrorKind::usage).starts_with(name)) << name;
    EXPECT_FALSE(fs::exists(options.out)) << name;
  }
}

TEST(Train, WhatIsNotFiniteIsNotKept) {
  const TemporaryFolder folder;
  for (const double share : {0.0, 0.1}) {
    TrainOptions options = saved_run(folder, "run" + std::to_string(share));
    options.lr = 1e12;
    options.validation_fraction = share;
    const std::string message = message_of(options, ErrorKind::runtime);
    EXPECT_NE(message.find("lower learning rate"), std::string::npos) << message;
    EXPECT_FALSE(fs::exists(options.out / "model"));
  }
}

}  // namespace
}  // namespace heed::test
