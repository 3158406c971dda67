#pragma once

#include <memory>
#include <vector>

#include "dist/communicator.h"
#include "heed/io.h"
#include "heed/train.h"

namespace heed {

/// What a step needs to know of all ranks together.
struct StepSums {
  double loss = 0.0;
  double tokens = 0.0;
  double norm = 0.0;         ///< of the whole gradient
  bool interrupted = false;  ///< on any rank
  double waited = 0.0;       ///< seconds for gradients after the backward pass was done
  double busy = 0.0;         ///< seconds in which gradients were under way
};

/// Sums gradients over the ranks. They travel in buckets, in reverse order of the parameters (the
/// order in which a backward pass gives them), and a bucket leaves as soon as its last gradient is
/// there. With `shard`, a rank gets the sums of its share only, updates that share with moments for
/// it alone, and sends the new weights to the others (ZeRO's first stage). One rank is a no-op.
class DataParallel {
 public:
  DataParallel(Communicator& ranks, const std::vector<NamedTensor>& parameters, bool shard);
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// What this rank's optimizer updates: matrices decay, the rest does not.
  std::vector<ParameterGroup> groups(double weight_decay) const;

  /// The next backward() is the last of this step: what becomes ready there may leave.
  void last_pass();
  /// Ends the sums; gradients are then those of all ranks.
  StepSums finish(const Optimizer& optimizer, double loss, double tokens, bool interrupted);
  /// After an update: every rank has all new weights.
  void share_weights();

  /// The optimizer's state for whole parameters, the same whatever the number of ranks. Collective;
  /// complete on rank 0.
  TensorMap state(const Optimizer& optimizer);
  void load_state(Optimizer& optimizer, const TensorMap& whole) const;

  /// Throws on all ranks where the weights of one are not those of rank 0, to the bit.
  void check_weights() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace heed
