#pragma once

#include <stop_token>

#include "heed/error.h"
#include "heed/export.h"

namespace heed {

/// What a computation throws that was asked to stop.
class HEED_API Stopped : public Error {
 public:
  Stopped() : Error(ErrorKind::runtime, "stopped") {}
};

/// While one of these lives, whatever this thread computes throws `Stopped` within milliseconds of
/// a request to stop: the loops inside every op look at `stop` between two tiles. Results under way
/// are lost, so it belongs around work that can be repeated or given up (a forward pass, a
/// prefill), never around an update of parameters.
class HEED_API StopScope {
 public:
  explicit StopScope(std::stop_token stop);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  std::stop_token stop_;
  const std::stop_token* before_;
};

}  // namespace heed
