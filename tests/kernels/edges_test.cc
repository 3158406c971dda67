#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "heed/runtime.h"
#include "kernels/activation.h"
#include "kernels/convert.h"
#include "kernels/elementwise.h"
#include "kernels/gather.h"
#include "kernels/norm.h"
#include "kernels/optimizer.h"
#include "kernels/random.h"
#include "kernels/softmax.h"
#include "support/op_case.h"

namespace heed::test {
namespace {

constexpr size_t kGuard = 64;  // bytes on either side of what a kernel may write

/// Room for `count` elements between two guards of a known byte.
template <class T>
class Guarded {
 public:
  explicit Guarded(size_t count) : bytes_(count * sizeof(T) + 2 * kGuard, kByte), count_(count) {
    std::fill_n(bytes_.begin() + kGuard, count * sizeof(T), static_cast<unsigned char>(0));
  }
  T* data() { return reinterpret_cast<T*>(bytes_.data() + kGuard); }
  bool intact() const {
    for (size_t i = 0; i < kGuard; ++i) {
      if (bytes_[i] != kByte || bytes_[kGuard + count_ * sizeof(T) + i] != kByte) {
        return false;
      }
    }
    return true;
  }

 private:
  static constexpr unsigned char kByte = 0xA5;
  std::vector<unsigned char> bytes_;
  size_t count_;
};

/// Every kernel that writes arrays, on rows that end anywhere in a vector.
template <class T>
void write_everything(int64_t n) {
  using C = kernels::Compute<T>;
  const auto size = static_cast<size_t>(n);
  Guarded<T> a(size);
  Guarded<T> b(size);
  Guarded<C> m(size);
  Guarded<C> v(size);
  Guarded<C> master(size);
  Guarded<C> row(1);
  Guarded<C> scale(1);
  std::vector<T> x(size + 1, kernels::narrow<T>(0.5));
  std::vector<C> scratch(static_cast<size_t>(kernels::norm_grad_scratch(1, n)) + 1);
  const int64_t first = 0;
  for (const auto kind : {kernels::Unary::exp, kernels::Unary::gelu, kernels::Unary::silu}) {
    kernels::unary(kind, a.data(), x.data(), n);
    kernels::unary_grad(kind, a.data(), x.data(), x.data(), n);
    kernels::gated_grad(kind, a.data(), b.data(), x.data(), x.data(), x.data(), n);
  }
  kernels::binary_row(kernels::Binary::add, a.data(), x.data(), 1, x.data(), 0, n);
  kernels::scale_shift(a.data(), x.data(), 2.0, 1.0, n);
  kernels::dropout(a.data(), x.data(), {1, 2}, 0.5, n);
  kernels::softmax(a.data(), x.data(), 1, n);
  kernels::softmax_grad(b.data(), x.data(), a.data(), 1, n);
  kernels::log_softmax(a.data(), x.data(), 1, n);
  kernels::convert(m.data(), x.data(), n);
  kernels::sum_rows_by_id(a.data(), x.data(), &first, 1, 1, n);
  if (n > 0) {
    kernels::layer_norm<T>(
        {a.data(), row.data(), scale.data(), x.data(), x.data(), x.data(), 1e-5, 1, n});
    kernels::norm_grad<T>({a.data(), b.data(), b.data(), x.data(), x.data(), x.data(), row.data(),
                           scale.data(), 1, n, scratch.data()});
  }
  T* value = a.data();
  if constexpr (std::is_same_v<T, C>) {
    value = master.data();
  }
  kernels::adam_range(master.data(), value, m.data(), v.data(), x.data(), {}, n);
  kernels::sgd_range(master.data(), value, m.data(), x.data(), {}, n);
  EXPECT_TRUE(a.intact() && b.intact()) << "results";
  EXPECT_TRUE(m.intact() && v.intact() && master.intact()) << "optimizer state";
  EXPECT_TRUE(row.intact() && scale.intact()) << "statistics of rows";
}

TEST(Edges, NothingIsWrittenBeyondTheEnd) {
  for_each_target([](const char* target) {
    SCOPED_TRACE(target);
    for (int64_t n = 0; n <= 67; ++n) {
      SCOPED_TRACE(n);
      write_everything<float>(n);
      write_everything<double>(n);
      write_everything<Half>(n);
      write_everything<BFloat16>(n);
    }
  });
}

TEST(Edges, PhiloxWordsAreTheScalarOnes) {
  for_each_target([](const char* target) {
    SCOPED_TRACE(target);
    const RandomKey key{0x123456789abcdef0u, 0xfedcba9876543210u};
    for (const uint64_t first : {uint64_t{0}, uint64_t{0xfffffff9u}, uint64_t{1} << 40}) {
      Guarded<uint32_t> words(4 * 21);
      kernels::philox_words(words.data(), key, first, 21);
      EXPECT_TRUE(words.intact());
      for (uint64_t block = 0; block < 21; ++block) {
        const auto expected = philox(key.seed, key.stream, first + block);
        for (size_t w = 0; w < 4; ++w) {
          ASSERT_EQ(words.data()[4 * block + w], expected[w]) << block;
        }
      }
    }
  });
}

/// Every bit pattern of the short types, there and back, against the scalar conversions.
TEST(Edges, ShortTypesConvertAsTheScalarCodeDoes) {
  for_each_target([](const char* target) {
    SCOPED_TRACE(target);
    const auto check_all = [](auto tag, auto from_scalar) {
      using T = decltype(tag);
      std::vector<T> shorts(65536);
      for (uint32_t bits = 0; bits < 65536; ++bits) {
        shorts[bits].bits = static_cast<uint16_t>(bits);
      }
      std::vector<float> floats(65536);
      kernels::convert(floats.data(), shorts.data(), 65536);
      // Halfway points and their neighbours are where rounding goes wrong.
      std::vector<float> between;
      for (uint32_t bits = 0; bits < 65536; ++bits) {
        const float expected = to_float(shorts[bits]);
        ASSERT_EQ(std::memcmp(&expected, &floats[bits], 4) == 0 || expected != expected, true)
            << bits << ": " << floats[bits] << ", expected " << expected;
        if (expected == expected && bits % 32768 < 0x7bff) {
          const float next = to_float(T{static_cast<uint16_t>(bits + 1)});
          const float middle = expected + (next - expected) / 2;
          between.insert(between.end(),
                         {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, next * 2)});
        }
      }
      std::vector<T> rounded(between.size());
      kernels::convert(rounded.data(), between.data(), static_cast<int64_t>(between.size()));
      for (size_t i = 0; i < between.size(); ++i) {
        ASSERT_EQ(rounded[i].bits, from_scalar(between[i]).bits) << between[i];
      }
    };
    check_all(Half{}, [](float v) { return to_half(v); });
    check_all(BFloat16{}, [](float v) { return to_bfloat16(v); });
  });
}

}  // namespace
}  // namespace heed::test
