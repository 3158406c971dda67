#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace heed::serve {

/// Counts of observations in buckets with fixed upper bounds, as Prometheus defines them.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds);
  void observe(double value);
  /// Appends the lines of the series `name` to a text in Prometheus' format.
  void write(std::string& out, const std::string& name, const std::string& help) const;
  int64_t count() const;
  double sum() const;

 private:
  const std::vector<double> bounds_;
  mutable std::mutex mutex_;
  std::vector<int64_t> counts_;  // one more than bounds: the rest
  double sum_ = 0.0;
};

/// What /metrics shows beyond the HTTP layer's own counters.
struct Metrics {
  Metrics();

  Histogram request_seconds;
  Histogram time_to_first_token;  ///< from the request, waiting included
  Histogram prompt_seconds;       ///< from a slot to the first token
  Histogram time_per_token;
  Histogram batch_sequences;  ///< sequences of a decoding step
  Histogram batch_texts;      ///< texts of an encoder's batch
  std::atomic<int64_t> prompt_tokens{0};
  std::atomic<int64_t> cached_prompt_tokens{0};  ///< of these, taken from a shared prefix
  std::atomic<int64_t> generated_tokens{0};
  std::atomic<int64_t> longest_sequence{0};  ///< tokens, prompt and answer
  std::atomic<int64_t> waiting{0};           ///< tasks that wait for a slot
  std::atomic<int64_t> active{0};            ///< sequences that decode
  std::atomic<int64_t> in_flight{0};
  std::atomic<int64_t> rejected{0};  ///< requests refused because the queue was full

  void count_request(const std::string& route, int status);
  void write_requests(std::string& out) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, int64_t> requests_;
};

void write_counter(std::string& out, const std::string& name, const std::string& help,
                   double value);
void write_gauge(std::string& out, const std::string& name, const std::string& help, double value);

}  // namespace heed::serve
