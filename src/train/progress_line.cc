#include "train/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/clock.h"
#include "base/duration.h"
#include "base/language.h"

namespace heed {
namespace {

constexpr double kTerminalEvery = 0.1;  // seconds between two looks
constexpr double kPlainEvery = 5.0;

std::string thousands(double value) {
  return value >= 1e6   ? fmt::format("{:.1f}M", value * 1e-6)
         : value >= 1e3 ? fmt::format("{:.1f}k", value * 1e-3)
                        : fmt::format("{:.0f}", value);
}

}  // namespace

std::string format_progress(const TrainProgress& p, double remaining_seconds) {
  const bool has_tokens = p.tokens_per_second > 0.0;
  const std::string validation =
      p.validation > 0.0 ? tell(" | val {:.3f}", p.validation) : std::string();
  const std::string rate = thousands(has_tokens ? p.tokens_per_second : p.examples_per_second);
  return tell("step {}/{} | loss {:.3f}{} | norm {:.2f} | lr {:.1e} | {:.0f} ms | {} | ETA {}",
              p.step, p.steps, p.loss, validation, p.norm, p.lr, p.seconds * 1e3,
              has_tokens ? tell("{} tok/s", rate) : tell("{} examples/s", rate),
              duration_text(remaining_seconds));
}

ProgressLine::ProgressLine(bool quiet)
    : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0), started_(seconds_now()) {}

void ProgressLine::show(const TrainProgress& progress) {
  const double elapsed = seconds_now() - started_;
  if (first_ < 0) {
    first_ = progress.step - 1;
  }
  const bool last = progress.step == progress.steps;
  const double every = terminal_ ? kTerminalEvery : kPlainEvery;
  if (quiet_ || (!last && last_shown_ >= 0.0 && elapsed - last_shown_ < every)) {
    return;
  }
  last_shown_ = elapsed;
  const double remaining = elapsed / static_cast<double>(progress.step - first_) *
                           static_cast<double>(progress.steps - progress.step);
  const std::string line = format_progress(progress, remaining);
  std::fprintf(stderr, terminal_ ? "\r\x1b[K%s" : "%s\n", line.c_str());
  std::fflush(stderr);
  open_ = terminal_;
}

void ProgressLine::finish() {
  if (open_) {
    std::fputc('\n', stderr);
    open_ = false;
  }
}

}  // namespace heed
