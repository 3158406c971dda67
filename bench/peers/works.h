#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "heed/tensor.h"
#include "io/json.h"

namespace heed::bench {

/// One piece of work that heed and its peers both do.
class PeerWork {
 public:
  virtual ~PeerWork() = default;
  /// Does it once; gives the seconds of the part that counts.
  virtual double run() = 0;
  /// Numbers to compare with the peer's: losses so far, or a sample of the last result.
  virtual std::vector<double> values() const = 0;
};

/// The work that a "prepare" command describes; `kind` is one of limits, attention, train, encode,
/// prefill, decode, answer, translate, tokenize, embed, transcribe. Fields are those of
/// bench/peers/works.py.
std::unique_ptr<PeerWork> make_work(const Json& command);

/// Adds at most 512 elements, evenly spread: the same places as protocol.py's sample().
void add_sample(std::span<const float> all, std::vector<double>& values);

}  // namespace heed::bench
