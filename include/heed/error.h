#pragma once

#include <stdexcept>
#include <string>

#include "heed/export.h"

namespace heed {

/// What went wrong, in the terms of the program's exit codes.
enum class ErrorKind {
  runtime,  ///< the operation failed (exit 1)
  usage,    ///< the caller asked for something that makes no sense (exit 2)
  data,     ///< a model, data file or other untrusted input is bad (exit 3)
};

/// Every error heed throws for user input. The message says what, where and what to do.
class HEED_API Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace heed
