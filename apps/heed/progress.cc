#include "heed/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/duration.h"
#include "base/language.h"

namespace heed::app {

ProgressBar::ProgressBar(std::string what, const Common& common, const char* unit)
    : what_(std::move(what)),
      unit_(unit),
      quiet_(common.quiet),
      terminal_(isatty(STDERR_FILENO) != 0) {}

std::string ProgressBar::rate(int64_t done, double seconds) const {
  constexpr double kMiB = 1024.0 * 1024.0;
  const double speed = static_cast<double>(done) / std::max(seconds, 1e-9);
  return unit_ == nullptr ? fmt::format("{:.1f} MiB/s", speed / kMiB)
                          : fmt::format("{:.1f} {}/s", speed, translate(unit_));
}

ProgressBar::~ProgressBar() {
  if (shown_ && terminal_) {
    fmt::print(stderr, "\n");
  }
}

void ProgressBar::operator()(int64_t done, int64_t total) {
  const Clock::time_point now = Clock::now();
  const auto pause =
      terminal_ ? std::chrono::milliseconds(shown_ ? 100 : 1000) : std::chrono::milliseconds(10000);
  if (quiet_ || total <= 0 || (done < total && now - std::max(last_, start_) < pause)) {
    return;
  }
  if (done >= total && !shown_) {
    return;  // over before there was anything to show
  }
  last_ = now;
  shown_ = true;
  constexpr int kWidth = 30;
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const auto filled = static_cast<size_t>(share * kWidth);
  const std::string line =
      tell("{} [{}{}] {:3.0f} % | {} | ETA {}", what_, std::string(filled, '#'),
           std::string(kWidth - filled, ' '), share * 100, rate(done, seconds),
           duration_text(seconds / share * (1 - share)));
  terminal_ ? fmt::print(stderr, "\r{}\x1b[K", line) : fmt::print(stderr, "{}\n", line);
  std::fflush(stderr);
}

}  // namespace heed::app
