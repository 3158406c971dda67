// Fault table, lines 68 to 85: checkpoints, numbers, ranks.
#include <fmt/format.h>

#include <csignal>
#include <fstream>

#include "base/file.h"
#include "faults/bench.h"

namespace heed::test {
namespace {

namespace fs = std::filesystem;

Run training(Bench& bench, const std::string& out, const std::vector<std::string>& more = {}) {
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += fmt::format("the {} cats sat on the mat\n", i);
  }
  Run run;
  run.arguments = {"train",
                   "--task",
                   "lm",
                   "--data",
                   bench.file("text.txt", text),
                   "--tokenizer",
                   "char",
                   "--layers",
                   "1",
                   "--heads",
                   "1",
                   "--width",
                   "8",
                   "--context",
                   "16",
                   "--batch",
                   "2",
                   "--steps",
                   "6",
                   "--checkpoint-every",
                   "2",
                   "--keep",
                   "2",
                   "--warmup",
                   "1",
                   "--quiet",
                   "--out",
                   bench.path(out)};
  run.arguments.insert(run.arguments.end(), more.begin(), more.end());
  run.environment = {{"XDG_CACHE_HOME", bench.path("cache")}};
  return run;
}

std::string weights(Bench& bench, const std::string& out) {
  return read_file(bench.path(out) / "model" / "model.safetensors");
}

void flipped_bits(Bench& bench) {
  bench.accepted(training(bench, "run"));
  const fs::path last = bench.path("run") / "checkpoints" / "step-000006";
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    const std::string whole = read_file(last / name);
    std::string damaged = whole;
    const size_t at =
        name == std::string("state.json") ? whole.find("\"best\"") + 9 : whole.size() / 2;
    damaged[at] = damaged[at] == '1' ? '2' : '1';
    std::ofstream(last / name, std::ios::binary) << damaged;
    const Outcome outcome = bench.accepted(training(bench, "run", {"--resume", "--steps", "6"}));
    bench.expect(outcome.err.find("warning") != std::string::npos &&
                     outcome.err.find("step-000006") != std::string::npos,
                 std::string(name) + ": the damage is named: " + outcome.err.substr(0, 200));
  }
}

void killed(Bench& bench) {
  bench.accepted(training(bench, "whole", {"--steps", "40"}));
  const std::string wanted = weights(bench, "whole");
  for (int i = 0; i < 6; ++i) {
    Run run = training(bench, "killed", {"--steps", "40"});
    if (i > 0 && fs::exists(bench.path("killed") / "metrics.jsonl")) {
      run.arguments.emplace_back("--resume");
    }
    run.kill_after = 0.02 + 0.05 * i;
    run.kill_signal = SIGKILL;
    run_program(run);
  }
  Run run = training(bench, "killed", {"--steps", "40"});
  if (fs::exists(bench.path("killed") / "metrics.jsonl")) {
    run.arguments.emplace_back("--resume");
  }
  bench.accepted(run);
  bench.expect(weights(bench, "killed") == wanted,
               "killed and resumed: the same weights to the bit");
}

void resumed(Bench& bench) {
  bench.accepted(training(bench, "whole"));
  bench.accepted(training(bench, "half"));
  fs::remove_all(bench.path("half") / "checkpoints" / "step-000006");
  fs::remove_all(bench.path("half") / "model");
  bench.accepted(training(bench, "half", {"--resume"}));
  bench.expect(weights(bench, "half") == weights(bench, "whole"), "bit-identical after resuming");
}

void thread_counts(Bench& bench) {
  for (const char* threads : {"1", "2", "5"}) {
    bench.accepted(training(bench, std::string("run") + threads, {"--threads", threads}));
  }
  bench.expect(weights(bench, "run1") == weights(bench, "run2") &&
                   weights(bench, "run1") == weights(bench, "run5"),
               "the same weights for any number of threads");
}

void bad_checksum_key(Bench& bench) {
  bench.accepted(training(bench, "run"));
  for (const auto& entry : fs::directory_iterator(bench.path("run") / "checkpoints")) {
    std::string state = read_file(entry.path() / "state.json");
    const size_t at = state.find("\"checksums\"");
    state.insert(state.find('{', at) + 1, "\"../../../text.txt\": \"00000000\",");
    std::ofstream(entry.path() / "state.json", std::ios::binary) << state;
  }
  const Outcome outcome = run_program(training(bench, "run", {"--resume"}));
  bench.expect(outcome.code == 3 && outcome.err.find("checksums") != std::string::npos,
               "a checksum of a file outside is refused: " + outcome.err.substr(0, 300));
}

}  // namespace

std::vector<Fault> training_faults() {
  return {
      {68, "kill -9 at any moment", killed},
      {69, "ENOSPC, EIO, short write", nullptr, "tests/faults/crash.sh"},
      {70, "a flipped bit", flipped_bits},
      {71, "changed data or configuration",
       [](Bench& bench) {
         bench.accepted(training(bench, "run"));
         bench.refused(training(bench, "run", {"--resume", "--width", "16"}), {"width"}, 3);
       }},
      {72, "resume is exact", resumed},
      {73, "two writers on a run", nullptr, "Resume.* (tests/train)"},
      {74, "stale temporary file",
       [](Bench& bench) {
         bench.accepted(training(bench, "run"));
         bench.file("run/checkpoints/tmp.tmp.0123456789abcdef/model.safetensors", "half");
         bench.accepted(training(bench, "run", {"--resume"}));
         bench.expect(!fs::exists(bench.path("run/checkpoints/tmp.tmp.0123456789abcdef")),
                      "a stale temporary is removed");
       }},
      {75, "rotation keeps a good checkpoint; checksums name only a checkpoint's files",
       bad_checksum_key},
      {76, "NaN or Inf loss", nullptr, "Train.* (tests/train), tests/mpi/faults.sh"},
      {77, "f16 overflow", nullptr, "Optimizer.* (tests/train)"},
      {78, "fully masked row", nullptr, "Attention.* (tests/ops)"},
      {79, "token id beyond the vocabulary, short or empty data",
       [](Bench& bench) {
         Run run = training(bench, "run");
         run.arguments[4] = bench.file("empty.txt", "");
         bench.refused(run, {"empty.txt", "no text"}, 3);
         run.arguments[4] = bench.file("short.txt", "a");
         bench.refused(run, {"short.txt", "tokens"}, 3);
         run = training(bench, "run", {"--context", "10000000"});
         bench.refused(run, {"text.txt", "10000000"}, 3);
         const std::string model = bench.model("gpt2_lm");
         const std::string input = bench.file(
             "in.safetensors",
             safetensors(R"({"input_ids":{"dtype":"I64","shape":[1,1],"data_offsets":[0,8]}})") +
                 little_endian(1000, 8));
         bench.refused({"forward", model, "--input", input, "--output", bench.path("o")}, {"1000"},
                       3);
       }},
      {80, "bit-identical for any thread count", thread_counts},
      {81, "a rank killed", nullptr, "tests/mpi/faults.sh"},
      {82, "a rank throws before a collective", nullptr, "tests/mpi/faults.sh"},
      {83, "configuration differs between ranks", nullptr, "tests/mpi/faults.sh"},
      {84, "NaN on one rank", nullptr, "tests/mpi/faults.sh"},
      {85, "one rank's write fails", nullptr, "tests/mpi/faults.sh"},
  };
}

}  // namespace heed::test
