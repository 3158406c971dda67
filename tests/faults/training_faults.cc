// Fault table, lines 68 to 75, 79 and 80: checkpoints, data, threads. tests/faults/crash.sh has a
// fault at every file operation.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "base/file.h"
#include "faults/bench.h"
#include "heed/io.h"
#include "support/budget.h"

namespace heed::test {
namespace {

namespace fs = std::filesystem;

void flipped_bits(Bench& bench) {
  bench.accepted(small_training(bench, "run"));
  const fs::path last = bench.path("run") / "checkpoints" / "step-000006";
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    const std::string whole = read_file(last / name);
    std::string damaged = whole;
    const size_t at =
        name == std::string("state.json") ? whole.find("\"best\"") + 9 : whole.size() / 2;
    damaged[at] = damaged[at] == '1' ? '2' : '1';
    std::ofstream(last / name, std::ios::binary) << damaged;
    const Outcome outcome =
        bench.accepted(small_training(bench, "run", {"--resume", "--steps", "6"}));
    bench.expect(outcome.err.find("warning") != std::string::npos &&
                     outcome.err.find("step-000006") != std::string::npos,
                 std::string(name) + ": the damage is named: " + outcome.err.substr(0, 200));
  }
}

void killed(Bench& bench) {
  bench.accepted(small_training(bench, "whole", {"--steps", "40"}));
  const std::string wanted = trained_weights(bench, "whole");
  for (int i = 0; i < 6; ++i) {
    Run run = small_training(bench, "killed", {"--steps", "40"});
    if (i > 0 && fs::exists(bench.path("killed") / "metrics.jsonl")) {
      run.arguments.emplace_back("--resume");
    }
    run.kill_after = 0.02 + 0.05 * i;
    run.kill_signal = SIGKILL;
    run_program(run);
  }
  Run run = small_training(bench, "killed", {"--steps", "40"});
  if (fs::exists(bench.path("killed") / "metrics.jsonl")) {
    run.arguments.emplace_back("--resume");
  }
  bench.accepted(run);
  bench.expect(trained_weights(bench, "killed") == wanted,
               "killed and resumed: the same weights to the bit");
}

void resumed(Bench& bench) {
  bench.accepted(small_training(bench, "whole"));
  bench.accepted(small_training(bench, "half"));
  fs::remove_all(bench.path("half") / "checkpoints" / "step-000006");
  fs::remove_all(bench.path("half") / "model");
  bench.accepted(small_training(bench, "half", {"--resume"}));
  bench.expect(trained_weights(bench, "half") == trained_weights(bench, "whole"),
               "bit-identical after resuming");
}

void thread_counts(Bench& bench) {
  for (const char* threads : {"1", "2", "5"}) {
    bench.accepted(small_training(bench, std::string("run") + threads, {"--threads", threads}));
  }
  bench.expect(trained_weights(bench, "run1") == trained_weights(bench, "run2") &&
                   trained_weights(bench, "run1") == trained_weights(bench, "run5"),
               "the same weights for any number of threads");
}

/// Rows of logits do not depend on the rows beside them.
void batches(Bench& bench) {
  const std::string model = bench.model("gpt2_lm");
  const auto logits = [&](const std::string& name, const std::vector<uint64_t>& ids) {
    const size_t rows = ids.size() / 3;
    std::string bytes;
    for (const uint64_t id : ids) {
      bytes += little_endian(id, 8);
    }
    const std::string input =
        bench.file(name + ".safetensors",
                   safetensors(fmt::format(
                       R"({{"input_ids":{{"dtype":"I64","shape":[{},3],"data_offsets":[0,{}]}}}})",
                       rows, bytes.size())) +
                       bytes);
    const std::string out = bench.path(name + ".out");
    bench.accepted({.arguments = {"forward", model, "--input", input, "--output", out}});
    const Tensor all = load_safetensors(out).at("logits");
    return std::vector<float>(all.data<float>(), all.data<float>() + all.numel());
  };
  const std::vector<float> two = logits("two", {5, 7, 9, 30, 2, 4});
  std::vector<float> each = logits("first", {5, 7, 9});
  const std::vector<float> second = logits("second", {30, 2, 4});
  each.insert(each.end(), second.begin(), second.end());
  bench.expect(two == each, "the same logits in a batch and alone");
}

void bad_checksum_key(Bench& bench) {
  bench.accepted(small_training(bench, "run"));
  for (const auto& entry : fs::directory_iterator(bench.path("run") / "checkpoints")) {
    std::string state = read_file(entry.path() / "state.json");
    const size_t at = state.find("\"checksums\"");
    state.insert(state.find('{', at) + 1, "\"../../../text.txt\": \"00000000\",");
    std::ofstream(entry.path() / "state.json", std::ios::binary) << state;
  }
  const Outcome outcome = run_program(small_training(bench, "run", {"--resume"}));
  bench.expect(outcome.code == 3 && outcome.err.find("checksums") != std::string::npos,
               "a checksum of a file outside is refused: " + outcome.err.substr(0, 300));
}

/// Whether a run has a checkpoint with all its files.
bool has_checkpoint(const fs::path& run) {
  for (const auto& entry : fs::directory_iterator(run / "checkpoints")) {
    if (entry.path().filename().native().starts_with("step-") &&
        fs::exists(entry.path() / "state.json") && fs::exists(entry.path() / "model.safetensors")) {
      return true;
    }
  }
  return false;
}

/// A run that keeps one checkpoint and makes one in every step, looked at in the middle of
/// whatever it does.
void rotation(Bench& bench) {
  Run run = small_training(bench, "rotated",
                           {"--steps", "1000000", "--checkpoint-every", "1", "--keep", "1"});
  run.meanwhile = [&](pid_t process) {
    const fs::path folder = bench.path("rotated");
    const auto begun = [&] { return fs::exists(folder / "checkpoints") && has_checkpoint(folder); };
    for (int i = 0; i < 3000 && !begun(); ++i) {
      usleep(10'000);
    }
    int found = 0;
    constexpr int kLooks = 40;
    for (int i = 0; i < kLooks; ++i) {
      usleep(3'000 + 700 * i);
      kill(process, SIGSTOP);
      found += has_checkpoint(folder) ? 1 : 0;
      kill(process, SIGCONT);
    }
    bench.expect(found == kLooks,
                 fmt::format("a whole checkpoint in {} of {} looks", found, kLooks));
    kill(process, SIGTERM);
  };
  const Outcome outcome = run_program(run);
  bench.expect(outcome.code == 130,
               fmt::format("the run is stopped: {} {}", outcome.code, outcome.err.substr(0, 200)));
}

/// Writes that fail at some moments of a run: it says so, and goes on from what it had saved.
void failing_writes(Bench& bench) {
  const fs::path built = program().parent_path() / "lib" / "libheed_fault_shim.so";
  if (kSanitized || !fs::exists(built)) {
    bench.skip("the library that makes writes fail cannot be loaded");
    return;
  }
  const std::string shim = bench.path("shim.so");  // LD_PRELOAD takes no path with spaces
  fs::copy_file(built, shim);
  bench.accepted(small_training(bench, "whole"));
  const std::string wanted = trained_weights(bench, "whole");
  const auto with_fault = [&](const std::string& out, const std::string& fault) {
    Run run = small_training(bench, out);
    run.environment.insert(run.environment.end(), {{"LD_PRELOAD", shim},
                                                   {"HEED_FAULT_FOLDER", bench.path(out)},
                                                   {"HEED_FAULT", fault},
                                                   {"HEED_FAULT_COUNT", bench.path("count")}});
    return run_program(run);
  };
  with_fault("counted", "none:0");
  const int operations = std::stoi(read_file(bench.path("count")));
  bench.expect(operations > 20, "the run writes, syncs and renames");
  for (const std::string kind : {"enospc", "eio", "short"}) {
    for (int part = 1; part <= 3; ++part) {
      const std::string fault = fmt::format("{}:{}", kind, operations * part / 4);
      const std::string out = kind + std::to_string(part);
      const Outcome outcome = with_fault(out, fault);
      const bool said =
          outcome.err.find(kind == "eio" ? "Input/output" : "No space") != std::string::npos;
      bench.expect(kind == "short" ? outcome.code == 0 : outcome.code == 1 && said,
                   fmt::format("{}: code {}, signal {}: {}", fault, outcome.code, outcome.signal,
                               outcome.err.substr(0, 200)));
      if (kind != "short") {
        bench.accepted(small_training(bench, out, {"--resume"}));
      }
      bench.expect(trained_weights(bench, out) == wanted, fault + ": the same weights to the bit");
    }
  }
}

void two_writers(Bench& bench) {
  Run first = small_training(bench, "run", {"--steps", "1000000", "--checkpoint-every", "100"});
  first.meanwhile = [&](pid_t process) {
    const fs::path saved = bench.path("run") / "checkpoints" / "step-000100";
    for (int i = 0; i < 3000 && !fs::exists(saved); ++i) {
      usleep(10'000);
    }
    bench.expect(fs::exists(saved), "the first one trains");
    bench.refused(small_training(bench, "run", {"--resume"}), {"run", "another process"}, 1);
    kill(process, SIGTERM);
  };
  const Outcome outcome = run_program(first);
  bench.expect(outcome.code == 130, fmt::format("the first one goes on, and is stopped: {} {}",
                                                outcome.code, outcome.err.substr(0, 200)));
}

}  // namespace

std::vector<Fault> training_faults() {
  return {
      {68, "kill -9 at any moment", killed},
      {69, "ENOSPC, EIO, short write", failing_writes},
      {70, "a flipped bit", flipped_bits},
      {71, "changed data or configuration",
       [](Bench& bench) {
         bench.accepted(small_training(bench, "run"));
         bench.refused(small_training(bench, "run", {"--resume", "--width", "16"}), {"width"}, 3);
         Run other = small_training(bench, "run", {"--resume"});
         std::ofstream(other.arguments[4], std::ios::app) << "one more line\n";
         bench.refused(other, {"text.txt", "is not what the run began with"}, 3);
       }},
      {72, "resume is exact", resumed},
      {73, "two writers on a run", two_writers},
      {74, "stale temporary file",
       [](Bench& bench) {
         bench.accepted(small_training(bench, "run"));
         bench.file("run/checkpoints/tmp.tmp.0123456789abcdef/model.safetensors", "half");
         bench.accepted(small_training(bench, "run", {"--resume"}));
         bench.expect(!fs::exists(bench.path("run/checkpoints/tmp.tmp.0123456789abcdef")),
                      "a stale temporary is removed");
       }},
      {75, "rotation keeps a good checkpoint; checksums name only a checkpoint's files",
       [](Bench& bench) {
         bad_checksum_key(bench);
         rotation(bench);
       }},
      {79, "token id beyond the vocabulary, short or empty data",
       [](Bench& bench) {
         Run run = small_training(bench, "run");
         run.arguments[4] = bench.file("empty.txt", "");
         bench.refused(run, {"empty.txt", "no text"}, 3);
         run.arguments[4] = bench.file("short.txt", "a");
         bench.refused(run, {"short.txt", "tokens"}, 3);
         run = small_training(bench, "run", {"--context", "10000000"});
         bench.refused(run, {"text.txt", "10000000"}, 3);
         const std::string model = bench.model("gpt2_lm");
         const std::string input = bench.file(
             "in.safetensors",
             safetensors(R"({"input_ids":{"dtype":"I64","shape":[1,1],"data_offsets":[0,8]}})") +
                 little_endian(1000, 8));
         bench.refused({"forward", model, "--input", input, "--output", bench.path("o")}, {"1000"},
                       3);
       }},
      {80, "bit-identical for any thread count and any batch",
       [](Bench& bench) {
         thread_counts(bench);
         batches(bench);
       }},
  };
}

}  // namespace heed::test
