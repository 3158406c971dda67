#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "heed/export.h"

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

}  // namespace heed
