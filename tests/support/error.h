#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "heed/runtime.h"

namespace heed::test {

/// The message of the Error that `run` throws, "no error" where it throws none. Fails where the
/// error is of another kind than `kind`.
template <class Run>
std::string message_of(Run&& run, std::optional<ErrorKind> kind = {}) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind.value_or(error.kind())) << error.what();
    return error.what();
  }
  return "no error";
}

/// Whether a message, as message_of() gives it, holds `part`.
inline testing::AssertionResult message_has(const std::string& message, const std::string& part) {
  if (message.find(part) != std::string::npos) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "an error with \"" << part << "\" is wanted; got:\n"
                                     << message;
}

}  // namespace heed::test

/// Fails unless the statement throws an Error whose message holds `part`.
#define EXPECT_ERROR(statement, part) \
  EXPECT_TRUE(::heed::test::message_has(::heed::test::message_of([&] { statement; }), part))
