#include "dist/communicator.h"

#if !defined(HEED_HAVE_MPI) || defined(HEED_WHEEL)

namespace heed {
std::unique_ptr<Communicator> make_mpi_communicator() { return nullptr; }
}  // namespace heed

#else

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>

#include "base/check.h"

namespace heed {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPoll = std::chrono::microseconds(50);
constexpr int kSpins = 200;  // looks without a pause: a small message between cores takes less

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Sums of large arrays are made of two exchanges: each rank gets its chunk of every rank's array
/// and adds them in the order of the ranks (MPI's own reductions leave the order to the library),
/// then the sums go to all. A thread of its own moves them while the model computes; it sleeps
/// between looks, because a core that polls is a core that does not multiply. MPI is entered by one
/// thread at a time.
class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    check(provided >= MPI_THREAD_SERIALIZED, "mpi",
          "the MPI library takes calls of one thread only");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    // Exchanges in the background may finish in another order than they began: a channel for each
    // kind keeps those of one kind in order on every rank.
    for (MPI_Comm* channel : {&small_, &scatter_, &share_}) {
      MPI_Comm_dup(MPI_COMM_WORLD, channel);
    }
    MPI_Comm local = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
    MPI_Comm_rank(local, &local_rank_);
    MPI_Comm_size(local, &local_size_);
    machine_ = rank_;
    MPI_Bcast(&machine_, 1, MPI_INT, 0, local);
    MPI_Comm_free(&local);
    worker_ = std::thread([this] { work(); });
  }

  ~MpiCommunicator() override {
    {
      const std::lock_guard lock(queue_lock_);
      stop_ = true;
    }
    wake_.notify_all();
    worker_.join();
    MPI_Finalize();
  }

  std::vector<std::string> gather(std::string_view mine) override {
    const auto ranks = static_cast<size_t>(size_);
    std::vector<uint64_t> sizes(ranks);
    const auto own = static_cast<uint64_t>(mine.size());
    run([&](MPI_Request* request) {
      MPI_Iallgather(&own, 1, MPI_UINT64_T, sizes.data(), 1, MPI_UINT64_T, small_, request);
    });
    std::vector<int> counts(ranks), starts(ranks);
    uint64_t total = 0;
    for (size_t i = 0; i < ranks; ++i) {
      starts[i] = static_cast<int>(total);
      counts[i] = static_cast<int>(sizes[i]);
      total += sizes[i];
    }
    check(total < uint64_t{1} << 31, "ranks", "{} bytes are too many to gather at once", total);
    std::string all(total, '\0');
    run([&](MPI_Request* request) {
      MPI_Iallgatherv(mine.data(), static_cast<int>(own), MPI_BYTE, all.data(), counts.data(),
                      starts.data(), MPI_BYTE, small_, request);
    });
    std::vector<std::string> result;
    for (size_t i = 0; i < ranks; ++i) {
      result.push_back(all.substr(static_cast<size_t>(starts[i]), sizes[i]));
    }
    return result;
  }

  void broadcast(void* data, size_t bytes) override {
    constexpr size_t kMost = size_t{1} << 30;
    for (size_t begin = 0; begin < bytes; begin += kMost) {
      run([&](MPI_Request* request) {
        MPI_Ibcast(static_cast<char*>(data) + begin,
                   static_cast<int>(std::min(kMost, bytes - begin)), MPI_BYTE, 0, small_, request);
      });
    }
  }

  void start_sum(float* data, int64_t chunk, bool everywhere) override {
    add({data, chunk, Stage::scatter, everywhere});
  }
  void start_all_gather(float* data, int64_t chunk) override {
    add({data, chunk, Stage::share, true});
  }

  void finish() override {
    std::unique_lock lock(queue_lock_);
    done_.wait(lock, [this] { return pending_ == 0; });
  }

  double take_busy_seconds() override {
    const std::lock_guard lock(queue_lock_);
    return std::exchange(busy_, 0.0);
  }

  [[noreturn]] void abort(int code) override {
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

 private:
  enum class Stage { scatter, share };
  struct Job {
    float* data;
    int64_t chunk;
    Stage stage;
    bool everywhere;
    MPI_Request request = MPI_REQUEST_NULL;
    std::vector<float> received = {};
  };

  /// Starts one exchange and waits for it, on the caller's thread.
  template <class Start>
  void run(const Start& start) {
    MPI_Request request = MPI_REQUEST_NULL;
    {
      const std::lock_guard lock(mpi_lock_);
      start(&request);
    }
    for (int look = 0; !is_done(&request); ++look) {
      if (look > kSpins) {
        std::this_thread::sleep_for(kPoll);
      }
    }
  }

  bool is_done(MPI_Request* request) {
    const std::lock_guard lock(mpi_lock_);
    int done = 0;
    MPI_Test(request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  }

  void add(Job job) {
    {
      const std::lock_guard lock(queue_lock_);
      queue_.push_back(std::move(job));
      ++pending_;
    }
    wake_.notify_all();
  }

  void work() {
    prctl(PR_SET_TIMERSLACK, 1000UL);  // a pause of 50 µs is to be one of 50 µs
    std::deque<Job> scatters;          // their exchange is under way, in the order of the queue
    std::deque<Job> shares;
    while (true) {
      std::deque<Job> fresh;
      {
        std::unique_lock lock(queue_lock_);
        if (scatters.empty() && shares.empty()) {
          wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
        }
        if (stop_) {
          return;
        }
        fresh.swap(queue_);
      }
      const Clock::time_point begin = Clock::now();
      for (Job& job : fresh) {
        const bool scatter = job.stage == Stage::scatter;
        (scatter ? scatters : shares).push_back(std::move(job));
        scatter ? start_scatter(scatters.back()) : start_all_gather(shares.back());
      }
      bool moved = !fresh.empty();
      while (!scatters.empty() && is_done(&scatters.front().request)) {
        Job job = std::move(scatters.front());
        scatters.pop_front();
        add_up(job);
        moved = true;
        if (job.everywhere) {
          shares.push_back(std::move(job));
          start_all_gather(shares.back());
        } else {
          end_one();
        }
      }
      while (!shares.empty() && is_done(&shares.front().request)) {
        shares.pop_front();
        end_one();
        moved = true;
      }
      if (!moved) {
        std::this_thread::sleep_for(kPoll);
      }
      const std::lock_guard lock(queue_lock_);
      busy_ += seconds_since(begin);
    }
  }

  void end_one() {
    {
      const std::lock_guard lock(queue_lock_);
      --pending_;
    }
    done_.notify_all();
  }

  void start_scatter(Job& job) {
    job.received.resize(static_cast<size_t>(job.chunk) * static_cast<size_t>(size_));
    const std::lock_guard lock(mpi_lock_);
    MPI_Ialltoall(job.data, static_cast<int>(job.chunk), MPI_FLOAT, job.received.data(),
                  static_cast<int>(job.chunk), MPI_FLOAT, scatter_, &job.request);
  }

  void start_all_gather(Job& job) {
    const std::lock_guard lock(mpi_lock_);
    MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, job.data, static_cast<int>(job.chunk),
                   MPI_FLOAT, share_, &job.request);
  }

  /// own chunk = ((rank 0 + rank 1) + rank 2) + …
  void add_up(Job& job) const {
    const int64_t n = job.chunk;
    float* out = job.data + rank_ * n;
    const float* first = job.received.data();
    std::copy_n(first, n, out);
    for (int rank = 1; rank < size_; ++rank) {
      const float* other = first + rank * n;
      for (int64_t i = 0; i < n; ++i) {
        out[i] += other[i];
      }
    }
    job.received = {};
  }

  MPI_Comm small_ = MPI_COMM_NULL;    // of the caller's thread
  MPI_Comm scatter_ = MPI_COMM_NULL;  // of the worker
  MPI_Comm share_ = MPI_COMM_NULL;    // of the worker
  std::mutex mpi_lock_;
  std::mutex queue_lock_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::deque<Job> queue_;
  int64_t pending_ = 0;
  double busy_ = 0.0;
  bool stop_ = false;
  std::thread worker_;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator() {
  return std::make_unique<MpiCommunicator>();
}

}  // namespace heed

#endif
