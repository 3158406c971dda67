#pragma once

#include <stdexcept>
#include <string>

namespace heed::explore {

/// A request that cannot be answered: the HTTP status and the code of the protocol.
class Failure : public std::runtime_error {
 public:
  Failure(int status, std::string code, const std::string& message, std::string param = {})
      : std::runtime_error(message),
        status_(status),
        code_(std::move(code)),
        param_(std::move(param)) {}
  int status() const { return status_; }
  const std::string& code() const { return code_; }
  const std::string& param() const { return param_; }

 private:
  int status_;
  std::string code_, param_;
};

}  // namespace heed::explore
