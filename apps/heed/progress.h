#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "heed/command.h"

namespace heed::app {

/// A bar on stderr for work of a known size: live on a terminal, else a plain line every ten
/// seconds; nothing with --quiet. Call it with what is done so far and the whole (bytes).
class ProgressBar {
 public:
  ProgressBar(std::string what, const Common& common);
  /// Leaves the line, where there is one.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void operator()(int64_t done, int64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  std::string what_;
  bool quiet_;
  bool terminal_;
  bool shown_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_{};
};

}  // namespace heed::app
