#pragma once

#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace heed::app {

/// Takes Ctrl-C away from the process while it lives: SIGINT stops what is being watched, ends the
/// program while it loads, and else calls `idle`. Make it before other threads are started.
class Interrupt {
 public:
  explicit Interrupt(std::function<void()> idle);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  /// From here on Ctrl-C does not end the program.
  void loaded();
  /// What Ctrl-C stops; null: nothing.
  void watch(std::stop_source* source);

 private:
  void wait(const std::stop_token& stop);

  std::function<void()> idle_;
  std::mutex mutex_;
  std::stop_source* source_ = nullptr;
  bool loaded_ = false;
  std::jthread thread_;
};

}  // namespace heed::app
