#include "heed/tensor.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>

#include "heed/ops.h"
#include "heed/runtime.h"
#include "support/budget.h"
#include "support/error.h"

namespace heed {
namespace {

TEST(Shape, RefusesWhatCannotBeAddressed) {
  EXPECT_ERROR(Tensor::empty({int64_t{1} << 62, 4}),
               "shape: [4611686018427387904, 4] has more elements than can be addressed");
  EXPECT_ERROR(Tensor::empty({-1}), "shape: [-1] has a negative dimension");
  EXPECT_ERROR(Tensor::empty({int64_t{1} << 32, int64_t{1} << 31}),
               "shape: [4294967296, 2147483648] has more elements than can be addressed");
  const Tensor nothing = Tensor::empty({0, int64_t{1} << 32, int64_t{1} << 32});
  EXPECT_EQ(nothing.numel(), 0);
  EXPECT_EQ(nothing.contiguous().shape(), nothing.shape());
  EXPECT_ERROR(Shape({1, 1, 1, 1, 1, 1, 1, 1, 1}), "shape: 9 axes; at most 8 are supported");
}

TEST(Shape, BroadcastNamesBothShapes) {
  EXPECT_EQ(broadcast_shapes({2, 1, 3}, {4, 1}, "add"), Shape({2, 4, 3}));
  try {
    broadcast_shapes({2, 3}, {4}, "add");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "add: shapes [2, 3] and [4] do not broadcast");
  }
}

TEST(Tensor, ViewsShareStorage) {
  const Tensor x = Tensor::from<float>({0, 1, 2, 3, 4, 5}, {2, 3});
  const Tensor t = transpose(x);
  EXPECT_TRUE(t.shares_storage_with(x));
  EXPECT_FALSE(t.is_contiguous());
  EXPECT_EQ(t.to_doubles(), (std::vector<double>{0, 3, 1, 4, 2, 5}));
  const Tensor s = slice(x, 1, 1, 3);
  EXPECT_TRUE(s.shares_storage_with(x));
  EXPECT_EQ(s.to_doubles(), (std::vector<double>{1, 2, 4, 5}));
  EXPECT_TRUE(expand(slice(x, 0, 0, 1), {4, 3}).shares_storage_with(x));
  EXPECT_TRUE(reshape(x, {3, 2}).shares_storage_with(x));
}

TEST(Tensor, TypeMismatchIsAnError) {
  const Tensor x = Tensor::zeros({2});
  EXPECT_ERROR(x.data<double>(),
               "data: a tensor of f32 is read as f64; convert it with to() first");
  EXPECT_ERROR(x.item(), "item: shape [2] has 2 elements; exactly one is wanted");
  EXPECT_ERROR(Tensor().shape(), "tensor: used before it was given a value");
  EXPECT_ERROR(Tensor::from<float>({1, 2, 3}, {2}), "from: 3 values do not fill shape [2]");
  Tensor ids = Tensor::zeros({2}, DType::i64);
  EXPECT_ERROR(ids.set_requires_grad(true), "set_requires_grad: a i64 tensor has no gradient");
}

TEST(Tensor, ConversionsRoundToNearestEven) {
  const Tensor x =
      Tensor::from<float>({1.0f, 65504.0f, 65520.0f, 1e-8f, 1.00048828125f, -0.0f}, {6});
  const auto half = x.to(DType::f16).to_doubles();
  EXPECT_EQ(half[0], 1.0);
  EXPECT_EQ(half[1], 65504.0);
  EXPECT_TRUE(std::isinf(half[2]));
  EXPECT_EQ(half[3], 0.0);
  EXPECT_EQ(half[4], 1.0);  // halfway between 1 and the next half
  EXPECT_TRUE(std::signbit(half[5]));
  EXPECT_TRUE(std::isnan(Tensor::scalar(NAN).to(DType::bf16).item()));
  // Every half survives the way to f32 and back.
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Half h{static_cast<uint16_t>(bits)};
    if (!std::isnan(to_float(h))) {
      ASSERT_EQ(to_half(to_float(h)).bits, h.bits);
    }
  }
}

TEST(Tensor, PrintsLikeNumPy) {
  EXPECT_EQ(Tensor::from<float>({1, 2.5f, -3}, {3}).to_string(), "[ 1.   2.5 -3. ]");
  EXPECT_EQ(Tensor::from<int64_t>({1, 20, 300, 4}, {2, 2}).to_string(), "[[  1  20]\n [300   4]]");
  EXPECT_EQ(Tensor::from<bool>({true, false}, {2}).to_string(), "[ True False]");
  EXPECT_EQ(Tensor::zeros({2, 0}).to_string(), "[]");
  const std::string long_one = Tensor::arange(2000).to_string();
  EXPECT_EQ(long_one, "[   0    1    2 ... 1997 1998 1999]");
}

int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

TEST(Allocator, ASecondStepTouchesNoNewPages) {
  if (test::kSanitized) {
    GTEST_SKIP() << "a sanitizer's own record of the memory is touched anew";
  }
  auto step = [] {
    std::vector<Tensor> live;
    for (int i = 0; i < 20; ++i) {
      live.push_back(Tensor::full({int64_t{1} << 20}, 1.0));  // 4 MiB each
    }
  };
  step();
  const int64_t before = page_faults();
  step();
  EXPECT_LT(page_faults() - before, 100);
}

TEST(Allocator, BlocksOfSizesThatAreNotUsedAnyMoreAreGivenBack) {
  // A server's cached prompts take up to a limit in all, in whatever sizes their lengths give.
  constexpr int64_t kTotal = int64_t{96} << 20;
  release_cached_memory();
  const int64_t before = memory_stats().reserved;
  for (const int64_t bytes : {700'000, 300'000, 120'000, 50'000, 20'000}) {
    std::vector<Tensor> tensors;
    for (int64_t used = 0; used < kTotal; used += bytes) {
      tensors.push_back(Tensor::empty({bytes / 4}));
    }
    // An eighth is lost to the sizes that blocks come in; 16 MiB may be free beyond that.
    EXPECT_LE(memory_stats().reserved - before, kTotal * 9 / 8 + (int64_t{17} << 20)) << bytes;
  }
  release_cached_memory();
}

TEST(Allocator, CountsWhatIsInUse) {
  const int64_t before = memory_stats().in_use;
  {
    const Tensor x = Tensor::empty({int64_t{1} << 20});
    EXPECT_GE(memory_stats().in_use - before, int64_t{4} << 20);
  }
  EXPECT_EQ(memory_stats().in_use, before);
  release_cached_memory();
  EXPECT_GE(memory_stats().reserved, 0);
}

}  // namespace
}  // namespace heed
