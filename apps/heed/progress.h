#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "heed/command.h"

namespace heed::app {

/// A bar on stderr for work of a known size: live on a terminal, else a plain line every ten
/// seconds; nothing with --quiet, nor for work that is over within a second. Call it with what is
/// done so far and the whole: bytes, or what `unit` names in English ("texts").
class ProgressBar {
 public:
  ProgressBar(std::string what, const Common& common, const char* unit = nullptr);
  /// Leaves the line, where there is one.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void operator()(int64_t done, int64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  std::string rate(int64_t done, double seconds) const;

  std::string what_;
  const char* unit_;
  bool quiet_;
  bool terminal_;
  bool shown_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_{};
};

}  // namespace heed::app
