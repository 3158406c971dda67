// Products with weights that were packed beforehand have the bits of those that pack by themselves.
#include "kernels/packed_weights.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "heed/ops.h"
#include "heed/runtime.h"
#include "support/check.h"
#include "support/op_case.h"

namespace heed::test {
namespace {

using kernels::Element;
using kernels::Matrix;

/// x [m, k] · Wᵀ + bias with gelu, in the type of x, with W's panels or without.
Tensor product(const Tensor& x, const Tensor& w, const Tensor& bias, bool packed) {
  const int64_t k = w.size(1);
  const int64_t n = w.size(0);
  const Element type = w.dtype() == DType::bf16 ? Element::bf16 : Element::f32;
  Matrix b{w.raw(), type, 1, k};
  const Tensor panels = Tensor::empty({kernels::packed_bytes(type, n, k)}, DType::u8);
  if (packed) {
    kernels::pack_weights(b, n, k, panels.raw());
    b.interleaved = panels.raw();
  }
  const Tensor y = Tensor::empty({x.size(0), n}, x.dtype());
  kernels::Epilogue epilogue;
  epilogue.bias = bias.raw();
  epilogue.activation = kernels::Unary::gelu;
  kernels::gemm({.m = x.size(0),
                 .n = n,
                 .k = k,
                 .a = {x.raw(), type, k, 1},
                 .b = b,
                 .c = y.raw(),
                 .c_type = type,
                 .c_stride = n,
                 .epilogue = epilogue});
  return y;
}

class PackedWeights : public ::testing::TestWithParam<DType> {};

TEST_P(PackedWeights, BitsAreThoseOfUnpackedWeights) {
  const DType type = GetParam();
  const Element element = type == DType::bf16 ? Element::bf16 : Element::f32;
  int compared = 0;
  for_each_target([&](const char* target) {
    if (!kernels::reads_packed(element, element)) {
      return;
    }
    for (const int64_t n : {1, 31, 32, 33, 200, 768}) {
      for (const int64_t k : {1, 7, 64, 769, 1600}) {
        const Tensor w = random_normal({n, k}, DType::f32, 1).to(type);
        const Tensor bias = random_normal({n}, DType::f32, 2).to(type);
        for (const int64_t m : {1, 5, 12, 16, 33, 150, 300}) {
          const Tensor x = random_normal({m, k}, DType::f32, 3).to(type);
          const Tensor expected = product(x, w, bias, false);
          const Tensor actual = product(x, w, bias, true);
          ASSERT_EQ(
              std::memcmp(actual.raw(), expected.raw(), static_cast<size_t>(expected.bytes())), 0)
              << fmt::format("{} [{}, {}] · [{}, {}]", target, m, k, k, n);
          ++compared;
        }
      }
    }
  });
  if (element == Element::f32) {
    EXPECT_GT(compared, 0);
  }
}

TEST_P(PackedWeights, ThreadCountChangesNoBit) {
  const DType type = GetParam();
  const Element element = type == DType::bf16 ? Element::bf16 : Element::f32;
  if (!kernels::reads_packed(element, element)) {
    GTEST_SKIP() << "no panels of this type here";
  }
  const Tensor w = random_normal({400, 900}, DType::f32, 1).to(type);
  const Tensor bias = random_normal({400}, DType::f32, 2).to(type);
  const Tensor x = random_normal({70, 900}, DType::f32, 3).to(type);
  const int before = thread_count();
  set_thread_count(1);
  const Tensor expected = product(x, w, bias, true);
  for (const int threads : {2, 3, 7}) {
    set_thread_count(threads);
    const Tensor actual = product(x, w, bias, true);
    EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), static_cast<size_t>(expected.bytes())), 0)
        << threads << " threads";
  }
  set_thread_count(before);
}

INSTANTIATE_TEST_SUITE_P(Types, PackedWeights, ::testing::Values(DType::f32, DType::bf16),
                         [](const auto& each) { return std::string(name_of(each.param)); });

}  // namespace
}  // namespace heed::test
