#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heed/command.h"
#include "heed/pipelines.h"

namespace heed::app {

/// Texts that are answered one after the other: those of the command line, or the lines of stdin.
/// A line that cannot be used is named on stderr and answered with an empty result; the rest goes
/// on, and exit_code() says so at the end.
class Lines {
 public:
  /// `texts` (may be empty: stdin) are handed out at most `at_once` at a time.
  Lines(const std::vector<std::string>& texts, int64_t at_once, const Common& common);

  /// Calls fn with the next texts until there are none left.
  void for_each(const std::function<void(const std::vector<std::string>&)>& fn);

  /// How a pipeline runs on the texts that fn was called with: warnings and errors are written to
  /// stderr with the number of their line.
  RunOptions run(int64_t batch_size);
  /// Why an input of the current texts could not be used; empty where it could.
  const std::string& error(size_t input) const { return errors_[input]; }
  /// 3 where a line could not be used, else 0.
  int exit_code() const { return failed_ ? 3 : 0; }

 private:
  void report(size_t input, const std::string& message, bool error);

  const std::vector<std::string>& texts_;
  size_t at_once_;
  const Common& common_;
  bool from_stdin_;
  int64_t first_line_ = 1;           // of the current texts
  std::vector<std::string> errors_;  // of the current texts
  std::vector<bool> blank_;          // of them, lines that are answered with a blank line
  bool failed_ = false;
  std::function<void(int64_t done, int64_t total)> on_progress_;  // within the current texts
};

/// Calls fn with each of the files that a command line names. One of several that holds bad data is
/// named on stderr and the rest goes on; the error of a single file is thrown. Gives the exit code:
/// 3 where a file could not be used, else 0.
int for_each_file(const std::vector<std::string>& files,
                  const std::function<void(const std::string& file)>& fn);

}  // namespace heed::app
