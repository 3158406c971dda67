#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "heed/train.h"

namespace heed {
namespace {
constexpr std::pair<const char*, ScheduleKind> kKinds[] = {
    {"constant", ScheduleKind::constant},
    {"cosine", ScheduleKind::cosine},
    {"linear", ScheduleKind::linear},
    {"inverse-sqrt", ScheduleKind::inverse_sqrt},
};
}  // namespace

ScheduleKind schedule_from_name(const std::string& name) {
  for (const auto& [text, kind] : kKinds) {
    if (name == text) {
      return kind;
    }
  }
  fail(ErrorKind::usage, "schedule",
       "'{}' is unknown; there are constant, cosine, linear and inverse-sqrt", name);
}

const char* name_of(ScheduleKind kind) {
  for (const auto& [text, known] : kKinds) {
    if (kind == known) {
      return text;
    }
  }
  return "unknown";
}

double Schedule::lr(int64_t step) const {
  check(step >= 1, "schedule", "there is no update {}; they count from 1", step);
  if (step <= warmup) {
    return peak * static_cast<double>(step) / static_cast<double>(warmup);
  }
  if (kind == ScheduleKind::constant) {
    return peak;
  }
  if (kind == ScheduleKind::inverse_sqrt) {
    return peak *
           std::sqrt(static_cast<double>(std::max<int64_t>(warmup, 1)) / static_cast<double>(step));
  }
  check(total > warmup, "schedule", "{} needs a total of updates above the warm-up's {}, not {}",
        name_of(kind), warmup, total);
  const double progress =
      std::min(1.0, static_cast<double>(step - warmup) / static_cast<double>(total - warmup));
  const double left = kind == ScheduleKind::cosine
                          ? 0.5 * (1.0 + std::cos(std::numbers::pi * progress))
                          : 1.0 - progress;
  return peak * (floor + (1.0 - floor) * left);
}

}  // namespace heed
