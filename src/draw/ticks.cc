#include "draw/ticks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace heed {
namespace {

/// The round step (1, 2 or 5 times a power of ten) that cuts `span` into at most `count` parts.
double round_step(double span, int count) {
  const double raw = span / std::max(count, 1);
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * (1 - 1e-9)) {
      return factor * power;
    }
  }
  return 10 * power;
}

std::string plain(double value, int decimals) {
  const std::string text = fmt::format("{:.{}f}", value, decimals);
  return text.find_first_of("123456789") == std::string::npos && text[0] == '-' ? text.substr(1)
                                                                                : text;
}

/// 1e6 -> "1M", 20000 -> "20k"; small ones as they are.
std::string shorthand(double value, int decimals) {
  const double size = std::abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) {
    return fmt::format("{:.3g}", value);
  }
  if (size >= 1e9) {
    return fmt::format("{:.4g}G", value / 1e9);
  }
  if (size >= 1e6) {
    return fmt::format("{:.4g}M", value / 1e6);
  }
  if (size >= 1e4) {
    return fmt::format("{:.4g}k", value / 1e3);
  }
  return plain(value, decimals);
}

}  // namespace

std::vector<Tick> linear_ticks(double low, double high, int count) {
  if (!(high > low) || !std::isfinite(high - low)) {
    return {{low, shorthand(low, 2)}};
  }
  const double step = round_step(high - low, count);
  const int decimals = static_cast<int>(std::clamp(-std::floor(std::log10(step) + 1e-9), 0.0, 4.0));
  std::vector<Tick> ticks;
  const double first = std::ceil(low / step - 1e-9);
  for (int i = 0; (first + i) * step <= high + step * 1e-9 && i <= 2 * count + 2; ++i) {
    const double value = (first + i) * step;
    ticks.push_back({value, shorthand(value, decimals)});
  }
  return ticks;
}

std::vector<Tick> log_ticks(double low, double high) {
  const int first = static_cast<int>(std::floor(std::log10(low) + 1e-9));
  const int last = static_cast<int>(std::ceil(std::log10(high) - 1e-9));
  const bool between = last - first <= 3;
  const int every = std::max((last - first + 7) / 8, 1);
  std::vector<Tick> ticks;
  for (int power = first; power <= last; power += every) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10.0, power);
      if ((factor == 1.0 || between) && value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) {
        ticks.push_back({value, shorthand(value, std::max(-power, 0))});
      }
    }
  }
  return ticks;
}

}  // namespace heed
