#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "heed/runtime.h"
#include "support/budget.h"

namespace heed::test {

/// `read` of a bad file gives a short data error that names the file and holds `part` and costs
/// little processor time.
template <class Read>
void expect_bad_file(const std::filesystem::path& path, const std::string& part, const Read& read) {
  const double seconds = cpu_seconds([&] {
    try {
      read(path);
      ADD_FAILURE() << "accepted; wanted an error with: " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      EXPECT_NE(std::string(error.what()).find(path.native()), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      EXPECT_LT(std::strlen(error.what()), 1000u);
    }
  });
  EXPECT_LT(seconds, budget(10.0));
}

}  // namespace heed::test
