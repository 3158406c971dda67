// The folder of a run: who may write it, which names count, and what a state may say.
#include "train/run_folder.h"

#include <gtest/gtest.h>

#include <fstream>

#include "heed/models.h"
#include "support/data.h"
#include "support/error.h"

namespace heed::test {
namespace {

namespace fs = std::filesystem;

TEST(RunFolder, AStateReadsBackAndRefusesWhatIsNoNumber) {
  RunState state;
  state.step = 7;
  state.random = {12, 34};
  const std::string text = state_to_text(state);
  EXPECT_EQ(state_to_text(state_from_text(text)), text);
  EXPECT_EQ(state_from_text(text).ranks, 1);
  RunState of_two = state;
  of_two.ranks = 2;
  EXPECT_EQ(state_from_text(state_to_text(of_two)).ranks, 2);
  for (const std::string value : {"12x", "x", "99999999999999999999"}) {
    std::string changed = text;
    const size_t at = changed.find("\"12\"");
    ASSERT_NE(at, std::string::npos) << text;
    changed.replace(at, 4, "\"" + value + "\"");
    EXPECT_ERROR(state_from_text(changed), "'" + value + "' is no whole number");
  }
}

TEST(RunFolder, OnlyStepsWithNumbersAreCheckpoints) {
  const TemporaryFolder folder;
  const fs::path checkpoints = folder / "run/checkpoints";
  fs::create_directories(checkpoints);
  for (const char* name : {"step-", "step-12x", "step-1234567890123456789", "other-5"}) {
    fs::create_directory(checkpoints / name);
  }
  { const RunFolder run(folder / "run", false); }  // none of these makes it a run
  fs::create_directory(checkpoints / "step-000005");
  EXPECT_ERROR(RunFolder(folder / "run", false), "holds a run already");
  const RunFolder resumed(folder / "run", true);
  EXPECT_TRUE(resumed.writes());
}

TEST(RunFolder, AReplacedCheckpointComesBack) {
  const TemporaryFolder folder;
  const fs::path checkpoints = folder / "run/checkpoints";
  fs::create_directories(checkpoints / "replaced.step-000005");
  { const RunFolder run(folder / "run", true); }
  EXPECT_TRUE(fs::exists(checkpoints / "step-000005"));
  EXPECT_FALSE(fs::exists(checkpoints / "replaced.step-000005"));
  fs::create_directories(checkpoints / "replaced.step-000005");
  { const RunFolder run(folder / "run", true); }  // the new one has its name: the old one goes
  EXPECT_TRUE(fs::exists(checkpoints / "step-000005"));
  EXPECT_FALSE(fs::exists(checkpoints / "replaced.step-000005"));
}

TEST(RunFolder, OneWriterAtATime) {
  const TemporaryFolder folder;
  const RunFolder first(folder / "run", false);
  EXPECT_ERROR(RunFolder(folder / "run", true), "another process trains in this folder");
  fs::create_directories(folder / "locked/lock");  // a folder where the lock should be
  EXPECT_ERROR(RunFolder(folder / "locked", true), "cannot be written; the run would be lost");
}

TEST(RunFolder, OtherRanksWriteNothing) {
  const TemporaryFolder folder;
  const RunFolder run(folder / "run", false, /*writes=*/false);
  run.add_line("metrics.jsonl", "{}");
  run.cut_lines("metrics.jsonl", 1);
  const auto model = create_model(
      R"({"model_type":"gpt2","vocab_size":8,"n_positions":4,"n_embd":4,"n_layer":1,"n_head":1})",
      1);
  run.save(*model, {}, Ema({}, 0.0), RunState(), 1);
  EXPECT_FALSE(fs::exists(folder / "run"));
}

TEST(RunFolder, LinesAreCutAndAFullDiskIsNamed) {
  const TemporaryFolder folder;
  const RunFolder run(folder / "run", false);
  run.cut_lines("metrics.jsonl", 1);  // nothing to cut yet
  for (const char* line :
       {R"({"step":1})", R"({"step":2})", "{broken", R"({"step":1,"final":true})"}) {
    run.add_line("metrics.jsonl", line);
  }
  run.cut_lines("metrics.jsonl", 1);
  std::ifstream lines(folder / "run/metrics.jsonl");
  std::string kept(std::istreambuf_iterator<char>(lines), {});
  EXPECT_EQ(kept, "{\"step\":1}\n");
  fs::create_directory(folder / "run/folder");
  EXPECT_ERROR(run.add_line("folder", "{}"), "cannot be written");
  EXPECT_ERROR(run.add_line("/dev/full", "{}"), "/dev/full: cannot be written");
  EXPECT_ERROR(run.add_line("/dev/full", std::string(1 << 20, 'x')),
               "/dev/full: cannot be written");
}

}  // namespace
}  // namespace heed::test
