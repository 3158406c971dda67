#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/data.h"

namespace heed::test {

/// How the program was run and how it ended.
struct Run {
  std::vector<std::string> arguments = {};
  std::string input = {};                                             ///< stdin
  std::vector<std::pair<std::string, std::string>> environment = {};  ///< added to the test's own
  std::vector<std::pair<int, uint64_t>> limits = {};  ///< setrlimit: RLIMIT_FSIZE, …
  double kill_after = 0;                              ///< seconds; then `kill_signal` is sent
  int kill_signal = 0;
  std::vector<std::string> launcher = {};          ///< what starts the program, such as mpirun
  std::function<void(pid_t)> meanwhile = nullptr;  ///< called once it was started
};
struct Outcome {
  int code = -1;   ///< of exit(); -1 if a signal ended it
  int signal = 0;  ///< that ended it
  std::string out, err;
  double cpu_seconds = 0;
  int64_t peak_bytes = 0;
};
Outcome run_program(const Run& run);

/// What a line of the fault table is checked with: makes files, runs the program, counts what was
/// right.
class Bench {
 public:
  explicit Bench(int line) : line_(line) {}

  std::filesystem::path path(const std::string& name) const { return folder_ / name; }
  /// Writes a file into the bench's folder, making folders on the way, and returns its path.
  std::string file(const std::string& name, const std::string& content);
  /// A copy of a model of tests/golden/models, with `change` applied to its config.json.
  std::string model(const std::string& name,
                    const std::vector<std::pair<std::string, std::string>>& replace = {});

  /// R of the fault table: one line on stderr that starts with "heed: " and has all `words`, the
  /// exit code wanted, no signal, under a second of processor time, and no more memory than `bytes`
  /// + 64 MB.
  void refused(const std::vector<std::string>& arguments, const std::vector<std::string>& words,
               int code = 3, int64_t bytes = 0);
  void refused(const Run& run, const std::vector<std::string>& words, int code, int64_t bytes = 0);
  /// Exit code 0; returns the outcome for further checks.
  Outcome accepted(const Run& run);
  /// Any other expectation.
  void expect(bool right, const std::string& what);
  /// This machine or build lacks what the line is about.
  void skip(const std::string& why) { skipped_ = why; }
  const std::string& skipped() const { return skipped_; }

  int tried() const { return tried_; }
  int right() const { return right_; }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  void count(const std::string& problem, const std::string& what);

  int line_;
  TemporaryFolder folder_;
  int tried_ = 0;
  int right_ = 0;
  int models_ = 0;
  std::string skipped_;
  std::vector<std::string> problems_;
};

/// One line of the fault table.
struct Fault {
  int line;
  const char* title;
  std::function<void(Bench&)> provoke;
};

std::vector<Fault> safetensors_faults();
std::vector<Fault> gguf_faults();
std::vector<Fault> model_faults();  ///< tokenizer and config.json
std::vector<Fault> command_faults();
std::vector<Fault> training_faults();
std::vector<Fault> number_faults();
std::vector<Fault> rank_faults();
std::vector<Fault> server_faults();
std::vector<Fault> other_faults();

// Small builders of files and runs.
/// A training command for a model of one block on `data`; `more` comes last.
Run one_block_training(Bench& bench, const std::string& task, const std::string& data,
                       const std::vector<std::string>& more);
/// A file of sixty short lines.
std::string lines_about_cats(Bench& bench);
/// A language model of one block that trains on a few lines; `more` comes last.
Run small_training(Bench& bench, const std::string& out, const std::vector<std::string>& more = {});
/// The weights that a run of it ended with.
std::string trained_weights(Bench& bench, const std::string& out);
std::string safetensors(const std::string& header, size_t data_bytes = 0);
std::string little_endian(uint64_t value, int bytes);

}  // namespace heed::test
