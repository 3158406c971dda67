#include "heed/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <ctime>

#include "heed/command.h"

namespace heed::app {
namespace {

sigset_t interrupt_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

Interrupt::Interrupt(std::function<void()> idle) : idle_(std::move(idle)) {
  const sigset_t set = interrupt_signal();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::jthread([this](const std::stop_token& stop) { wait(stop); });
}

Interrupt::~Interrupt() {
  thread_.request_stop();
  thread_.join();
  const sigset_t set = interrupt_signal();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void Interrupt::loaded() {
  const std::lock_guard lock(mutex_);
  loaded_ = true;
}

void Interrupt::watch(std::stop_source* source) {
  const std::lock_guard lock(mutex_);
  source_ = source;
}

void Interrupt::wait(const std::stop_token& stop) {
  const sigset_t set = interrupt_signal();
  constexpr timespec kLook{0, 100'000'000};
  while (!stop.stop_requested()) {
    if (sigtimedwait(&set, nullptr, &kLook) != SIGINT) {
      continue;
    }
    const std::lock_guard lock(mutex_);
    if (!loaded_) {
      _exit(kInterrupted);
    } else if (source_ != nullptr) {
      source_->request_stop();
    } else {
      idle_();
    }
  }
}

}  // namespace heed::app
