#include "base/bus_guard.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <mutex>

namespace heed {

/// Ranges are a list that only grows: a released one is taken again by the next caller, so that the
/// handler may walk the list at any moment without a lock.
struct GuardedRange {
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};  // 0: free
  std::atomic<bool> cut{false};
  GuardedRange* next = nullptr;
  std::function<void(bool cut)> check;  // under the lock
};

namespace {

std::atomic<GuardedRange*> g_first{nullptr};
std::mutex g_lock;  // never taken by the handler
struct sigaction g_previous {};
uintptr_t g_page = 4096;

void hand_on(int signal, siginfo_t* info, void* context) {
  if ((g_previous.sa_flags & SA_SIGINFO) != 0) {
    g_previous.sa_sigaction(signal, info, context);
  } else if (g_previous.sa_handler != SIG_DFL && g_previous.sa_handler != SIG_IGN) {
    g_previous.sa_handler(signal);
  } else {
    sigaction(signal, &g_previous, nullptr);  // returning meets the fault again, now deadly
  }
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (GuardedRange* range = g_first.load(); range != nullptr; range = range->next) {
    const uintptr_t end = range->end.load();
    if (end != 0 && address >= range->begin.load() && address < end) {
      char* page = static_cast<char*>(info->si_addr) - address % g_page;
      void* zeros = mmap(page, end - address + address % g_page, PROT_READ,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      if (zeros != MAP_FAILED) {
        range->cut.store(true);
        return;
      }
    }
  }
  hand_on(signal, info, context);
}

void install() {
  g_page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &g_previous);
}

}  // namespace

GuardedRange* guard_range(const void* begin, size_t bytes, std::function<void(bool cut)> check) {
  static std::once_flag once;
  std::call_once(once, install);
  const std::lock_guard lock(g_lock);
  GuardedRange* range = g_first.load();
  while (range != nullptr && range->end.load() != 0) {
    range = range->next;
  }
  if (range == nullptr) {
    range = new GuardedRange;  // lives as long as the process: the handler may be looking at it
    range->next = g_first.load();
    g_first.store(range);
  }
  range->cut.store(false);
  range->check = std::move(check);
  range->begin.store(reinterpret_cast<uintptr_t>(begin));
  range->end.store(reinterpret_cast<uintptr_t>(begin) + bytes);
  return range;
}

void release_range(GuardedRange* range) {
  const std::lock_guard lock(g_lock);
  range->end.store(0);
  range->check = nullptr;
}

bool was_cut(const GuardedRange* range) { return range->cut.load(); }

void check_guarded_ranges() {
  const std::lock_guard lock(g_lock);
  for (GuardedRange* range = g_first.load(); range != nullptr; range = range->next) {
    if (range->end.load() != 0) {
      range->check(range->cut.load());
    }
  }
}

}  // namespace heed
