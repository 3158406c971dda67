#pragma once

#include <stop_token>
#include <thread>

namespace heed::app {

/// While one lives, SIGINT and SIGTERM ask a token to stop instead of ending the program; the
/// handlers before come back at its end. At most one at a time.
class StopSignals {
 public:
  /// `deadline`: seconds after the first signal in which call_off() must come, else SIGALRM ends
  /// the process; 0: none. A rank that waits for a lost one would wait for ever.
  explicit StopSignals(std::stop_source source, unsigned deadline = 0);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// What was asked for is under way: the deadline no longer holds.
  static void call_off();

 private:
  void (*interrupt_)(int);
  void (*terminate_)(int);
  std::jthread watcher_;
};

}  // namespace heed::app
