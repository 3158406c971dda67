#pragma once

#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>

#include "heed/runtime.h"

namespace heed {

/// Whose fault an error is: who would have to change something.
enum class ErrorKind {
  runtime,  ///< nobody's: the operation failed, or shapes do not fit
  usage,    ///< the caller's: an option or argument makes no sense
  data,     ///< the input's: a model, data file or other untrusted input is bad
};

/// Every error heed throws for user input. The message says what, where and what to do.
class HEED_API Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// Chooses the language in which translated() and the library's own reports are written: "en" (the
/// default) or "ko". Call it once, before threads start.
HEED_API void set_language(std::string_view code);
/// A message of the library, such as `Error::what()` or a finding of validate_weights(), in that
/// language. Messages themselves are English, so that programs can rely on them.
HEED_API std::string translated(const std::string& message);

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
