#include "heed/stop_signals.h"

#include <semaphore.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

namespace heed::app {
namespace {

// What a handler may touch: a semaphore that a thread waits for, and alarm().
sem_t g_heard;
volatile std::sig_atomic_t g_deadline = 0;

void on_signal(int) {
  const int before = errno;
  sem_post(&g_heard);
  if (g_deadline > 0) {
    alarm(static_cast<unsigned>(g_deadline));
  }
  errno = before;
}

}  // namespace

StopSignals::StopSignals(std::stop_source source, unsigned deadline) {
  sem_init(&g_heard, 0, 0);
  g_deadline = static_cast<std::sig_atomic_t>(deadline);
  watcher_ = std::jthread([source = std::move(source)](const std::stop_token& end) mutable {
    while (sem_wait(&g_heard) != 0 && errno == EINTR) {
    }
    if (!end.stop_requested()) {
      source.request_stop();
    }
  });
  interrupt_ = std::signal(SIGINT, on_signal);
  terminate_ = std::signal(SIGTERM, on_signal);
}

StopSignals::~StopSignals() {
  std::signal(SIGINT, interrupt_);
  std::signal(SIGTERM, terminate_);
  watcher_.request_stop();
  sem_post(&g_heard);
  watcher_.join();
  call_off();
  sem_destroy(&g_heard);
}

void StopSignals::call_off() { alarm(0); }

}  // namespace heed::app
