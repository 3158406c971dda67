#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/allocator.h"
#include "base/check.h"
#include "base/prefetch.h"
#include "base/throw_if_stopped.h"
#include "heed/runtime.h"

namespace heed {
namespace {

constexpr int kMaxThreads = 1024;
constexpr uint64_t kIndexMask = 0xffffffffu;
constexpr uint64_t kClosed = 0x80000000u;  // an index no job reaches
constexpr int kSpins = 4000;               // about 60 µs: longer than the gap between two ops

thread_local bool t_inside = false;
thread_local const std::stop_token* t_stop = nullptr;  // of the innermost StopScope
std::atomic<bool> g_pool_gone{false};  // at the end of the process, where tensors may outlive it

bool stops(const std::stop_token* stop) { return stop != nullptr && stop->stop_requested(); }

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" : : : "memory");  // `yield` is over at once on most cores
#endif
}

/// What idle threads fetch into their caches, a piece at a time.
class Prefetch {
 public:
  void set(const void* data, int64_t bytes) {
    const auto begin = reinterpret_cast<uintptr_t>(data);
    end_.store(0, std::memory_order_relaxed);
    next_.store(begin, std::memory_order_relaxed);
    end_.store(begin + static_cast<uintptr_t>(bytes), std::memory_order_relaxed);
  }
  /// Asks for the next piece; false where there is none. Of a set() that comes in between a piece
  /// may be asked for in vain.
  bool fetch() {
    constexpr uintptr_t kPiece = 4096;
    const uintptr_t end = end_.load(std::memory_order_relaxed);
    if (next_.load(std::memory_order_relaxed) >= end) {
      return false;
    }
    const uintptr_t begin = next_.fetch_add(kPiece, std::memory_order_relaxed);
    for (uintptr_t line = begin; line < std::min(begin + kPiece, end); line += 64) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): a prefetch follows no pointer
      __builtin_prefetch(reinterpret_cast<const void*>(line), 0, 2);
    }
    return true;
  }

 private:
  alignas(64) std::atomic<uintptr_t> next_{0};
  std::atomic<uintptr_t> end_{0};
};

int cores_available() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    return std::max(1, CPU_COUNT(&set));
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

/// A pool whose threads claim tiles from one shared ticket. Nobody waits for a thread that holds no
/// tile: the caller can finish a job and start the next while a descheduled worker sleeps.
///
/// ticket_ = job number << 32 | next tile. A claim is one fetch_add. A worker that comes late gets
/// an index past the end, or a tile of a newer job. The caller closes the ticket before it changes
/// the job's fields, so a worker that reads fields of the new job with a number of the old one
/// notices when it looks at the ticket again.
class Pool {
 public:
  static Pool& instance() {
    static Pool pool;
    return pool;
  }

  int threads() const { return threads_.load(std::memory_order_relaxed); }
  Prefetch& prefetch() { return prefetch_; }

  void resize(int threads) {
    std::lock_guard lock(caller_);
    stop_workers();
    threads_.store(threads, std::memory_order_relaxed);
  }

  void run(int64_t tiles, void (*call)(void*, int64_t), void* context) {
    std::unique_lock lock(caller_, std::try_to_lock);
    if (tiles <= 1 || t_inside || !lock.owns_lock() || threads() == 1 ||
        tiles >= static_cast<int64_t>(kClosed)) {
      run_serially(tiles, call, context);
      return;
    }
    start_workers();
    const uint64_t job = ((ticket_.load(std::memory_order_relaxed) >> 32) + 1) & kIndexMask;
    ticket_.store(job << 32 | kClosed, std::memory_order_seq_cst);
    call_.store(call, std::memory_order_release);
    context_.store(context, std::memory_order_release);
    tiles_.store(tiles, std::memory_order_release);
    stop_token_.store(t_stop, std::memory_order_release);
    done_.store(0, std::memory_order_release);
    error_ = nullptr;
    ticket_.store(job << 32, std::memory_order_seq_cst);
    signal_.store(static_cast<uint32_t>(job), std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) {
      signal_.notify_all();
    }
    while (claim_and_run()) {
    }
    wait_done(tiles);
    if (error_) {
      std::rethrow_exception(error_);
    }
  }

  static void run_serially(int64_t tiles, void (*call)(void*, int64_t), void* context) {
    const bool outer = t_inside;
    t_inside = true;
    try {
      for (int64_t tile = 0; tile < tiles; ++tile) {
        if (stops(t_stop)) {
          throw Stopped();
        }
        call(context, tile);
      }
    } catch (...) {
      t_inside = outer;
      throw;
    }
    t_inside = outer;
  }

 private:
  Pool() : threads_(std::min(cores_available(), kMaxThreads)) {
    pthread_atfork([] { instance().before_fork(); }, [] { instance().after_fork(false); },
                   [] { instance().after_fork(true); });
  }

  /// A fork waits for the job under way, so that the child finds everything at rest. The
  /// allocator's lock is taken inside jobs and therefore comes second.
  void before_fork() {
    caller_.lock();
    lock_allocator();
  }
  /// The child has none of the parent's workers; it starts its own with its first job.
  void after_fork(bool child) {
    unlock_allocator();
    if (child) {
      new (&workers_) std::vector<std::thread>();  // the old handles stand for nothing here
      sleepers_.store(0);
    }
    caller_.unlock();
  }

  ~Pool() {
    g_pool_gone.store(true);
    stop_workers();
  }

  void start_workers() {
    const auto wanted = static_cast<size_t>(threads() - 1);
    try {
      workers_.reserve(wanted);
      while (workers_.size() < wanted) {
        workers_.emplace_back([this, seen = signal_.load()]() mutable { work(seen); });
      }
    } catch (const std::exception&) {
      // No thread, or no memory for its stack: results do not depend on the number of threads, so
      // those that did start do the work.
      threads_.store(static_cast<int>(workers_.size()) + 1, std::memory_order_relaxed);
    }
  }

  void stop_workers() {
    stop_.store(true);
    signal_.fetch_add(0x40000000u);
    signal_.notify_all();
    for (std::thread& worker : workers_) {
      worker.join();
    }
    workers_.clear();
    stop_.store(false);
  }

  /// Takes one tile of the current job; false where there is none left.
  bool claim_and_run() {
    const uint64_t ticket = ticket_.fetch_add(1, std::memory_order_seq_cst);
    const uint64_t index = ticket & kIndexMask;
    if (index >= kClosed) {
      return false;
    }
    const int64_t tiles = tiles_.load(std::memory_order_acquire);
    auto* call = call_.load(std::memory_order_acquire);
    void* context = context_.load(std::memory_order_acquire);
    const std::stop_token* stop = stop_token_.load(std::memory_order_acquire);
    if (static_cast<int64_t>(index) >= tiles ||
        (ticket_.load(std::memory_order_seq_cst) >> 32) != (ticket >> 32)) {
      return false;
    }
    t_inside = true;
    try {
      if (stops(stop)) {
        throw Stopped();
      }
      call(context, static_cast<int64_t>(index));
    } catch (...) {
      {
        std::lock_guard lock(error_lock_);
        if (!error_) {
          error_ = std::current_exception();
        }
      }
      skip_rest(ticket >> 32, static_cast<uint64_t>(tiles));
    }
    t_inside = false;
    if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(tiles)) {
      done_.notify_all();
    }
    return true;
  }

  /// After a stop or an error nobody begins another tile: takes all that are left in one step and
  /// counts them as done. The job is not over before the caller's own tile is counted, too.
  void skip_rest(uint64_t job, uint64_t tiles) {
    uint64_t ticket = ticket_.load(std::memory_order_seq_cst);
    while ((ticket & kIndexMask) < tiles) {
      if (ticket_.compare_exchange_weak(ticket, job << 32 | tiles, std::memory_order_seq_cst)) {
        done_.fetch_add(static_cast<uint32_t>(tiles - (ticket & kIndexMask)),
                        std::memory_order_acq_rel);
        return;
      }
    }
  }

  void wait_done(int64_t tiles) {
    for (int spin = 0;; ++spin) {
      const uint32_t done = done_.load(std::memory_order_acquire);
      if (done == static_cast<uint32_t>(tiles)) {
        return;
      }
      if (spin < kSpins) {
        if (!prefetch_.fetch()) {
          pause_cpu();
        }
      } else {
        done_.wait(done, std::memory_order_acquire);
      }
    }
  }

  void work(uint32_t seen) {
    while (true) {
      uint32_t now = signal_.load(std::memory_order_acquire);
      for (int spin = 0; now == seen && spin < kSpins; ++spin) {
        if (!prefetch_.fetch()) {
          pause_cpu();
        }
        now = signal_.load(std::memory_order_acquire);
      }
      if (now == seen) {
        sleepers_.fetch_add(1, std::memory_order_seq_cst);
        signal_.wait(seen, std::memory_order_seq_cst);
        sleepers_.fetch_sub(1, std::memory_order_seq_cst);
        now = signal_.load(std::memory_order_acquire);
      }
      seen = now;
      if (stop_.load()) {
        return;
      }
      while (claim_and_run()) {
      }
    }
  }

  std::atomic<int> threads_;
  std::mutex caller_;
  std::vector<std::thread> workers_;
  std::atomic<bool> stop_{false};
  Prefetch prefetch_;

  alignas(64) std::atomic<uint64_t> ticket_{kClosed};
  alignas(64) std::atomic<uint32_t> done_{0};
  alignas(64) std::atomic<uint32_t> signal_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<int64_t> tiles_{0};
  std::atomic<void (*)(void*, int64_t)> call_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<const std::stop_token*> stop_token_{nullptr};
  std::mutex error_lock_;
  std::exception_ptr error_;
};

}  // namespace

int thread_count() { return Pool::instance().threads(); }

void set_thread_count(int threads) {
  if (threads < 1 || threads > kMaxThreads) {
    fail(ErrorKind::usage, "threads", "{} is out of range; give 1 to {}", threads, kMaxThreads);
  }
  Pool::instance().resize(threads);
}

bool inside_parallel() { return t_inside; }

void prefetch_while_idle(const void* data, int64_t bytes) {
  Pool::instance().prefetch().set(data, bytes);
}

StopScope::StopScope(std::stop_token stop) : stop_(std::move(stop)), before_(t_stop) {
  t_stop = stop_.stop_possible() ? &stop_ : before_;
}
StopScope::~StopScope() { t_stop = before_; }

void throw_if_stopped() {
  if (stops(t_stop)) {
    throw Stopped();
  }
}

SingleThreadedScope::SingleThreadedScope() : before_(t_inside) { t_inside = true; }
SingleThreadedScope::~SingleThreadedScope() { t_inside = before_; }

namespace detail {
void run_tiles(int64_t tiles, void (*call)(void*, int64_t), void* context) {
  if (g_pool_gone.load(std::memory_order_relaxed)) {
    Pool::run_serially(tiles, call, context);
    return;
  }
  Pool::instance().run(tiles, call, context);
}
}  // namespace detail

}  // namespace heed
