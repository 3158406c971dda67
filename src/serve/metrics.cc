#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace heed::serve {
namespace {

std::vector<double> seconds_from(double least, size_t count) {
  std::vector<double> bounds;
  double bound = least;
  for (size_t i = 0; i < count; ++i, bound *= i % 3 == 2 ? 2.5 : 2.0) {
    bounds.push_back(bound);  // 1, 2, 5, 10, 20, 50, …
  }
  return bounds;
}

void write_head(std::string& out, const std::string& name, const std::string& help,
                const char* type) {
  out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), counts_(bounds_.size() + 1, 0) {}

void Histogram::observe(double value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  const std::lock_guard lock(mutex_);
  ++counts_[static_cast<size_t>(bucket)];
  sum_ += value;
}

int64_t Histogram::count() const {
  const std::lock_guard lock(mutex_);
  return std::accumulate(counts_.begin(), counts_.end(), int64_t{0});
}

double Histogram::sum() const {
  const std::lock_guard lock(mutex_);
  return sum_;
}

void Histogram::write(std::string& out, const std::string& name, const std::string& help) const {
  write_head(out, name, help, "histogram");
  const std::lock_guard lock(mutex_);
  int64_t below = 0;
  for (size_t i = 0; i < bounds_.size(); ++i) {
    below += counts_[i];
    out += fmt::format("{}_bucket{{le=\"{:g}\"}} {}\n", name, bounds_[i], below);
  }
  below += counts_.back();
  out += fmt::format("{}_bucket{{le=\"+Inf\"}} {}\n{}_sum {}\n{}_count {}\n", name, below, name,
                     sum_, name, below);
}

Metrics::Metrics()
    : request_seconds(seconds_from(0.0001, 20)),
      time_to_first_token(seconds_from(0.001, 15)),
      prompt_seconds(seconds_from(0.001, 15)),
      time_per_token(seconds_from(0.0001, 15)),
      batch_sequences({1, 2, 4, 8, 12, 16, 24, 32, 64, 128}),
      batch_texts({1, 2, 4, 8, 16, 32, 64, 128, 256}) {}

void Metrics::count_request(const std::string& route, int status) {
  const std::lock_guard lock(mutex_);
  ++requests_[{route, status}];
}

void Metrics::write_requests(std::string& out) const {
  write_head(out, "heed_requests_total", "Requests answered, by route and status", "counter");
  const std::lock_guard lock(mutex_);
  for (const auto& [key, count] : requests_) {
    out += fmt::format("heed_requests_total{{route=\"{}\",status=\"{}\"}} {}\n", key.first,
                       key.second, count);
  }
}

void write_counter(std::string& out, const std::string& name, const std::string& help,
                   double value) {
  write_head(out, name, help, "counter");
  out += fmt::format("{} {:.12g}\n", name, value);
}

void write_gauge(std::string& out, const std::string& name, const std::string& help, double value) {
  write_head(out, name, help, "gauge");
  out += fmt::format("{} {:.12g}\n", name, value);
}

}  // namespace heed::serve
