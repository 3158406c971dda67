#include "kernels/dot_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "heed/runtime.h"
#include "support/op_case.h"

namespace heed::test {
namespace {

TEST(DotRows, EveryTargetAndLength) {
  std::mt19937 random(3);
  for (const int64_t dim : {1, 2, 7, 8, 15, 16, 31, 32, 33, 64, 100, 384, 1000}) {
    const int64_t count = 5;
    const auto numbers = static_cast<size_t>(count * dim);
    // Starts at an odd place: rows of a file begin anywhere.
    std::vector<float> rows(numbers + 1), query(static_cast<size_t>(dim));
    std::vector<int8_t> bytes(numbers + 1);
    std::vector<int16_t> whole(static_cast<size_t>(dim));
    for (size_t i = 0; i <= numbers; ++i) {
      rows[i] = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 500.0F;
      bytes[i] = static_cast<int8_t>(random() % 256);
    }
    const int limit = static_cast<int>(std::min<int64_t>(32767, 2147483647 / 128 / dim));
    for (size_t j = 0; j < query.size(); ++j) {
      query[j] = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 500.0F;
      whole[j] = static_cast<int16_t>(static_cast<int>(random() % (2u * limit + 1)) - limit);
    }
    for_each_target([&](const char* target) {
      SCOPED_TRACE(std::string(target) + ", dim " + std::to_string(dim));
      std::vector<float> products(count);
      std::vector<int32_t> exact(count);
      kernels::dot_rows(products.data(), rows.data() + 1, count, dim, query.data());
      kernels::dot_rows(exact.data(), bytes.data() + 1, count, dim, whole.data());
      for (int64_t i = 0; i < count; ++i) {
        double expected = 0.0, size = 0.0;
        int64_t integer = 0;
        for (int64_t j = 0; j < dim; ++j) {
          const auto at = static_cast<size_t>(1 + i * dim + j);
          expected += double{rows[at]} * query[static_cast<size_t>(j)];
          size += std::abs(double{rows[at]} * query[static_cast<size_t>(j)]);
          integer += int64_t{bytes[at]} * whole[static_cast<size_t>(j)];
        }
        EXPECT_NEAR(products[static_cast<size_t>(i)], expected, 1e-6 * size);
        EXPECT_EQ(exact[static_cast<size_t>(i)], integer);
      }
    });
  }
}

/// The largest numbers there are, all of one sign: no sum overflows within the documented bound.
TEST(DotRows, LargestWholeNumbers) {
  for (const int64_t dim : {64, 512, 4096}) {
    const auto value = static_cast<int16_t>(std::min<int64_t>(32767, 2147483647 / 128 / dim));
    const std::vector<int16_t> query(static_cast<size_t>(dim), value);
    const std::vector<int8_t> row(static_cast<size_t>(dim), -128);
    for_each_target([&](const char*) {
      int32_t product = 0;
      kernels::dot_rows(&product, row.data(), 1, dim, query.data());
      EXPECT_EQ(product, -128 * int64_t{value} * dim);
    });
  }
}

}  // namespace
}  // namespace heed::test
