#include "heed/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace heed::app {

ProgressBar::ProgressBar(std::string what, const Common& common)
    : what_(std::move(what)), quiet_(common.quiet), terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressBar::~ProgressBar() {
  if (shown_ && terminal_) {
    fmt::print(stderr, "\n");
  }
}

void ProgressBar::operator()(int64_t done, int64_t total) {
  const Clock::time_point now = Clock::now();
  const auto pause = terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(10);
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
      fmt::format("{} [{}{}] {:3.0f} % | {:.1f} MB/s | ETA {:.0f}s", what_,
                  std::string(filled, '#'), std::string(kWidth - filled, ' '), share * 100,
                  static_cast<double>(done) / 1e6 / seconds, seconds / share * (1 - share));
  terminal_ ? fmt::print(stderr, "\r{}\x1b[K", line) : fmt::print(stderr, "{}\n", line);
  std::fflush(stderr);
}

}  // namespace heed::app
