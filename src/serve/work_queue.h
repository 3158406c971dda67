#pragma once

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace heed::serve {

/// Threads that run what is posted, in order.
class WorkQueue {
 public:
  /// Starts as many threads as the system gives, at least one. Throws where there is none.
  WorkQueue(const std::string& name, int threads) {
    try {
      threads_.reserve(static_cast<size_t>(threads));
      for (int i = 0; i < threads; ++i) {
        threads_.emplace_back([this, name] {
          pthread_setname_np(pthread_self(), name.c_str());
          run();
        });
      }
    } catch (const std::exception&) {
      if (threads_.empty()) {
        throw;
      }
    }
  }
  ~WorkQueue() { stop(); }
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// Nothing happens after stop().
  void post(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) {
        return;
      }
      work_.push_back(std::move(work));
    }
    changed_.notify_one();
  }
  enum class Queued { run, drop };
  /// Runs or drops what was posted before, and ends the threads once what they do is done.
  void stop(Queued queued = Queued::run) {
    std::deque<std::function<void()>> dropped;  // destroyed outside the lock
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      if (queued == Queued::drop) {
        dropped.swap(work_);
      }
    }
    changed_.notify_all();
    dropped.clear();
    for (std::thread& thread : threads_) {
      thread.join();
    }
    threads_.clear();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || !work_.empty(); });
      if (work_.empty()) {
        return;
      }
      const std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      try {
        work();
      } catch (const std::exception&) {
        // Not even memory for the answer: the exchange was dropped, and its client told so.
      }
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace heed::serve
