#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <string>

#include "heed/error.h"
#include "support/budget.h"

namespace heed::test {

/// `read` of a bad file gives a short data error that names the file and holds `part`, in under a
/// second.
template <class Read>
void expect_bad_file(const std::filesystem::path& path, const std::string& part, const Read& read) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    read(path);
    ADD_FAILURE() << "accepted; wanted an error with: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    EXPECT_NE(std::string(error.what()).find(path.native()), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    EXPECT_LT(std::strlen(error.what()), 1000u);
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(taken.count(), budget(1.0));
}

}  // namespace heed::test
