#pragma once

#include <string>
#include <vector>

namespace heed {

struct Tick {
  double value;
  std::string text;
};

/// About `count` round values within [low, high].
std::vector<Tick> linear_ticks(double low, double high, int count);
/// Powers of ten (and 2, 5 between them where they are few) within [low, high], both > 0.
std::vector<Tick> log_ticks(double low, double high);

}  // namespace heed
