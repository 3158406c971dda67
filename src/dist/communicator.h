#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace heed {

/// The processes ("ranks") that work on one run. All calls but rank() and size() are collective:
/// every rank makes them in the same order. Sums are taken in the order of the ranks, so that a
/// fixed number of ranks gives the same bits every time. A single process is a rank of one, and
/// everything here is then free.
class Communicator {
 public:
  virtual ~Communicator() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_root() const { return rank_ == 0; }
  int local_rank() const { return local_rank_; }  ///< among the ranks on this machine
  int local_size() const { return local_size_; }
  int machine() const { return machine_; }  ///< the same number for all ranks of a machine

  /// The bytes of every rank, in order.
  virtual std::vector<std::string> gather(std::string_view mine) = 0;
  /// Rank 0's bytes to every rank.
  virtual void broadcast(void* data, size_t bytes) = 0;
  std::string broadcast(std::string text);

  /// Elementwise over the ranks.
  std::vector<double> sum(const std::vector<double>& mine);
  std::vector<double> max(const std::vector<double>& mine);

  /// Starts to sum `data`, size() chunks of `chunk` floats, over the ranks. Chunk rank() then holds
  /// the sum; where `everywhere`, all chunks do on every rank. Goes on in the background; `data`
  /// belongs to it until finish().
  virtual void start_sum(float* data, int64_t chunk, bool everywhere) = 0;
  /// Starts to send chunk rank() to all others.
  virtual void start_all_gather(float* data, int64_t chunk) = 0;
  /// Waits until everything that was started is done.
  virtual void finish() = 0;
  /// Seconds since the last call in which something was under way in the background.
  virtual double take_busy_seconds() = 0;

  /// Ends all ranks. Does not return.
  [[noreturn]] virtual void abort(int code) = 0;

 protected:
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  int machine_ = 0;
};

/// All ranks that the launcher (mpirun, srun) started together; a rank of one where none did.
Communicator& world();

/// Throws on every rank, with the first line that differs, where `text` is not the same on all.
void check_same(Communicator& ranks, std::string_view what, const std::string& text);

/// The ranks as MPI has them; null where heed was built without it.
std::unique_ptr<Communicator> make_mpi_communicator();

}  // namespace heed
