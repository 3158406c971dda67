// Fault table, lines 81 to 85: ranks of one run, started by mpirun.
#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "base/file.h"
#include "faults/bench.h"

namespace heed::test {
namespace {

namespace fs = std::filesystem;

/// Two ranks on one machine, each started by a script with its number in $rank; `commands` give a
/// rank its part. Where they have not ended after a minute, `timeout` ends them, and ended() is
/// false.
Run on_two_ranks(Bench& bench, Run run, const std::string& commands = "") {
  const std::string script = bench.file(
      "by_rank", "#!/usr/bin/env bash\nrank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-$PMI_RANK}}\n" +
                     commands + "\nexec \"$@\"\n");
  chmod(script.c_str(), 0700);
  const std::string watched = bench.file(
      "watched", fmt::format("#!/usr/bin/env bash\nmpirun --oversubscribe -n 2 '{}' \"$@\"\n"
                             "code=$?\n: >'{}'\nexit $code\n",
                             script, bench.path("ended").native()));
  chmod(watched.c_str(), 0700);
  fs::remove(bench.path("ended"));
  run.launcher = {"timeout", "-k", "5", "60", watched};
  // Containers run as root, and two cores may carry more ranks.
  for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                           "OMPI_MCA_rmaps_base_oversubscribe"}) {
    run.environment.emplace_back(name, "1");
  }
  return run;
}

/// Whether the ranks of the last run ended by themselves.
bool ended(Bench& bench) { return fs::exists(bench.path("ended")); }

/// Whether ranks can be started at all; notes why not.
bool has_ranks(Bench& bench) {
  if (std::system("command -v mpirun >/dev/null && command -v timeout >/dev/null") != 0) {
    bench.skip("mpirun is not installed (package openmpi-bin)");
    return false;
  }
  const Outcome outcome = run_program(on_two_ranks(bench, small_training(bench, "first")));
  if (outcome.err.find("built without MPI") != std::string::npos) {
    bench.skip("this heed was built without MPI");
    return false;
  }
  bench.expect(outcome.code == 0, "two ranks train: " + outcome.err.substr(0, 400));
  return outcome.code == 0;
}

/// All ranks end with an error that has these words, in time.
void all_end(Bench& bench, const Run& run, const std::string& words, const std::string& what) {
  const Outcome outcome = run_program(run);
  bench.expect(
      outcome.code > 0 && outcome.code < 124 && outcome.err.find(words) != std::string::npos,
      fmt::format("{}: code {}: {}", what, outcome.code, outcome.err.substr(0, 400)));
}

void killed_rank(Bench& bench) {
  if (!has_ranks(bench)) {
    return;
  }
  const std::vector<std::string> options = {"--steps", "40", "--keep", "3"};
  bench.accepted(on_two_ranks(bench, small_training(bench, "whole", options)));
  const std::string saved = bench.path("killed") / "checkpoints" / "step-000004";
  const Outcome outcome = run_program(on_two_ranks(
      bench, small_training(bench, "killed", {"--steps", "1000000", "--keep", "500000"}),
      fmt::format("if [ \"$rank\" = 1 ]; then (until [ -e '{}' ]; do sleep 0.02; done; "
                  "kill -9 $$) & fi",
                  saved)));
  bench.expect(outcome.code > 0 && ended(bench),
               fmt::format("all end with the killed rank: code {}", outcome.code));
  bench.expect(fs::exists(saved), "what was saved stays");
  // A run of the same length as the undisturbed one, since the learning rates depend on it.
  const Run half = on_two_ranks(
      bench, small_training(bench, "half", options),
      fmt::format("if [ \"$rank\" = 1 ]; then (until [ -e '{}' ]; do :; done; kill -9 $$) & fi",
                  (bench.path("half") / "checkpoints" / "step-000002").native()));
  run_program(half);
  const bool begun = fs::exists(bench.path("half") / "checkpoints" / "step-000002") ||
                     fs::exists(bench.path("half") / "metrics.jsonl");
  std::vector<std::string> more = options;
  if (begun) {
    more.emplace_back("--resume");
  }
  bench.accepted(on_two_ranks(bench, small_training(bench, "half", more)));
  bench.expect(trained_weights(bench, "half") == trained_weights(bench, "whole"),
               "resumed: the same weights to the bit");
}

void throwing_rank(Bench& bench) {
  if (!has_ranks(bench)) {
    return;
  }
  Run run = small_training(bench, "run");
  fs::create_directories(bench.path("here"));
  fs::create_directories(bench.path("there"));
  fs::copy_file(bench.path("text.txt"), bench.path("here/text.txt"));
  run.arguments[4] = "text.txt";
  all_end(bench,
          on_two_ranks(bench, run,
                       fmt::format("if [ \"$rank\" = 1 ]; then cd '{}'; else cd '{}'; fi",
                                   bench.path("there").native(), bench.path("here").native())),
          "(rank 1; all ranks end)", "data that one rank does not have");
}

void differing_ranks(Bench& bench) {
  if (!has_ranks(bench)) {
    return;
  }
  all_end(bench,
          on_two_ranks(bench, small_training(bench, "run"),
                       "if [ \"$rank\" = 1 ]; then set -- \"$@\" --lr 0.5; fi"),
          "rank 1 has another option than rank 0: 'lr = 0.5", "another option on one rank");
  bench.expect(!fs::exists(bench.path("run") / "metrics.jsonl"), "refused before the first step");
}

void overflow_on_one_rank(Bench& bench) {
  if (!has_ranks(bench)) {
    return;
  }
  std::string numbers;
  std::string texts;
  for (int i = 0; i < 64 * 8; ++i) {
    const float number = i / 8 == 40 ? 3.4028235e38f : 0.0f;
    numbers.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  for (int example = 0; example < 64; ++example) {
    texts += example % 2 == 0 ? "a dog runs\n" : "a cat\n";
  }
  bench.file("regions.txt", texts);
  const std::string data = bench.file(
      "regions.safetensors",
      safetensors(R"({"features":{"dtype":"F32","shape":[64,2,4],"data_offsets":[0,2048]}})") +
          numbers);
  const auto training = [&](const std::string& out) {
    Run run = small_training(
        bench, out, {"--batch", "16", "--steps", "8", "--validation-share", "0", "--seed", "3"});
    run.arguments[2] = "caption";
    run.arguments[4] = data;
    return run;
  };
  const auto skipped = [&](const std::string& out) {
    std::string steps;
    std::ifstream metrics(bench.path(out) / "metrics.jsonl");
    for (std::string line; std::getline(metrics, line);) {
      if (line.find("\"skipped\":true") != std::string::npos) {
        steps += line.substr(0, line.find(',')) + " ";
      }
    }
    return steps;
  };
  bench.accepted(training("one"));
  bench.accepted(on_two_ranks(bench, training("two")));
  bench.expect(!skipped("one").empty(), "a step is skipped");
  bench.expect(skipped("one") == skipped("two"),
               fmt::format("all skip the same: {}, {}", skipped("one"), skipped("two")));
}

void failing_write(Bench& bench) {
  if (!has_ranks(bench)) {
    return;
  }
  bench.accepted(on_two_ranks(bench, small_training(bench, "run", {"--width", "64"})));
  fs::remove_all(bench.path("run") / "checkpoints" / "step-000006");
  fs::remove_all(bench.path("run") / "model");
  const Outcome outcome =
      run_program(on_two_ranks(bench, small_training(bench, "run", {"--width", "64", "--resume"}),
                               "if [ \"$rank\" = 0 ]; then trap '' XFSZ; ulimit -f 30; fi"));
  bench.expect(outcome.code > 0 && outcome.code < 124 &&
                   outcome.err.find("File too large") != std::string::npos,
               fmt::format("a full disk is told: {} {}", outcome.code, outcome.err.substr(0, 300)));
  bench.expect(!fs::exists(bench.path("run") / "checkpoints" / "step-000006") &&
                   fs::exists(bench.path("run") / "checkpoints" / "step-000004"),
               "the checkpoint is not committed, the one before it stays");
}

/// A run may go on with another number of ranks, and says that this is exact up to rounding.
void other_ranks(Bench& bench) {
  if (!has_ranks(bench)) {
    return;
  }
  const auto told = [](const Outcome& outcome, const std::string& words) {
    return outcome.code == 0 && outcome.err.find(words) != std::string::npos;
  };
  const auto stopped = [&](const std::string& out) {
    fs::remove_all(bench.path(out) / "checkpoints" / "step-000006");
    return small_training(bench, out, {"--resume"});
  };
  bench.accepted(on_two_ranks(bench, small_training(bench, "two")));
  Outcome outcome = run_program(stopped("two"));
  bench.expect(told(outcome, "2 ranks before and 1 now: equal up to rounding"),
               "two ranks, then one: " + outcome.err.substr(0, 400));
  bench.accepted(small_training(bench, "one"));
  outcome = run_program(on_two_ranks(bench, stopped("one")));
  bench.expect(told(outcome, "1 ranks before and 2 now: equal up to rounding"),
               "one rank, then two: " + outcome.err.substr(0, 400));
  bench.expect(fs::exists(bench.path("one") / "checkpoints" / "step-000006"), "the run ends");
  outcome = run_program(on_two_ranks(bench, stopped("two")));
  bench.expect(outcome.err.find("ranks before") == std::string::npos,
               "the same number again says nothing: " + outcome.err.substr(0, 400));
}

}  // namespace

std::vector<Fault> rank_faults() {
  return {
      {71, "changed number of ranks", other_ranks},
      {81, "a rank killed", killed_rank},
      {82, "a rank throws before a collective", throwing_rank},
      {83, "configuration differs between ranks", differing_ranks},
      {84, "NaN on one rank", overflow_on_one_rank},
      {85, "one rank's write fails", failing_write},
  };
}

}  // namespace heed::test
