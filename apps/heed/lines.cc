#include "heed/lines.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/language.h"
#include "base/print_message.h"
#include "heed/open.h"
#include "heed/progress.h"

namespace heed::app {
namespace {

/// Bytes of stdin where it is a file, else 0: then there is no progress to be shown.
int64_t stdin_bytes() {
  struct stat status {};
  return fstat(STDIN_FILENO, &status) == 0 && S_ISREG(status.st_mode) ? status.st_size : 0;
}

}  // namespace

Lines::Lines(const std::vector<std::string>& texts, int64_t at_once, const Common& common)
    : texts_(texts),
      at_once_(static_cast<size_t>(at_once)),
      common_(common),
      from_stdin_(texts.empty()) {}

void Lines::for_each(const std::function<void(const std::vector<std::string>&)>& fn) {
  if (from_stdin_ && isatty(STDIN_FILENO) != 0 && !common_.quiet) {
    fmt::print(stderr, "{}\n", tell("Type one text per line; Ctrl-D ends."));
  }
  const bool typed = from_stdin_ && isatty(STDIN_FILENO) != 0;
  const size_t at_once = typed ? 1 : at_once_;
  ProgressBar progress(tell("working"), common_);
  const int64_t total = stdin_bytes();
  int64_t bytes = 0;
  std::vector<std::string> waiting;
  // Within the texts of one call the bar goes on by the share of them that is done.
  on_progress_ = [&](int64_t done, int64_t all) {
    int64_t part = 0;
    for (const std::string& text : waiting) {
      part += static_cast<int64_t>(text.size()) + 1;
    }
    progress(bytes + part * done / std::max<int64_t>(all, 1),
             from_stdin_ ? total : std::max<int64_t>(part, 1));
  };
  const auto answer = [&] {
    errors_.assign(waiting.size(), {});
    blank_.assign(waiting.size(), false);
    for (size_t i = 0; i < waiting.size(); ++i) {
      blank_[i] = from_stdin_ && is_blank_line(waiting[i]);
    }
    fn(waiting);
    for (const std::string& text : waiting) {
      bytes += static_cast<int64_t>(text.size()) + 1;
    }
    if (from_stdin_) {
      progress(bytes, total);
    }
    first_line_ += static_cast<int64_t>(waiting.size());
    waiting.clear();
  };
  const auto take = [&](const std::string& text) {
    waiting.push_back(text);
    if (waiting.size() == at_once) {
      answer();
    }
  };
  if (from_stdin_) {
    for_each_line(take);
  } else {
    std::for_each(texts_.begin(), texts_.end(), take);
  }
  if (!waiting.empty()) {
    answer();
  }
  on_progress_ = nullptr;
}

RunOptions Lines::run(int64_t batch_size) {
  RunOptions options;
  options.batch_size = batch_size;
  options.progress = on_progress_;
  options.on_warning = [this](size_t i, const std::string& text) { report(i, text, false); };
  options.on_error = [this](size_t i, const std::string& text) { report(i, text, true); };
  return options;
}

void Lines::report(size_t input, const std::string& message, bool error) {
  if (blank_[input]) {
    return;  // that it has no tokens is no fault
  }
  if (error) {
    errors_[input] = message;
    failed_ = true;
  }
  if (common_.quiet && !error) {
    return;
  }
  const int64_t number = first_line_ + static_cast<int64_t>(input);
  const std::string where = from_stdin_ ? tell("line {}", number) : tell("text {}", number);
  print_message(fmt::format("heed: {}: {}", where, translate_message(message)));
}

int for_each_file(const std::vector<std::string>& files,
                  const std::function<void(const std::string& file)>& fn) {
  int code = 0;
  for (const std::string& file : files) {
    try {
      fn(file);
    } catch (const Error& error) {
      if (files.size() == 1 || error.kind() != ErrorKind::data) {
        throw;
      }
      print_message("heed: " + translate_message(error.what()));
      code = exit_code(error);
    }
  }
  return code;
}

}  // namespace heed::app
