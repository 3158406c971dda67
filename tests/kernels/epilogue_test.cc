// What follows a product, piece by piece inside it, is the same to the bit as one step after the
// other on the whole result: each step's result is rounded to the type of C.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "heed/ops.h"
#include "kernels/gemm.h"
#include "support/check.h"
#include "support/op_case.h"

namespace heed::test {
namespace {

using kernels::Element;

Element element(DType type) {
  return type == DType::bf16  ? Element::bf16
         : type == DType::f16 ? Element::f16
         : type == DType::f64 ? Element::f64
                              : Element::f32;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.bytes())) == 0;
}

struct Operands {
  Tensor x, w, bias, residual;
};

Tensor product(const Operands& in, const kernels::Epilogue& epilogue) {
  const int64_t m = in.x.size(0), k = in.x.size(1), n = in.w.size(0);
  const Element type = element(in.x.dtype());
  const Tensor y = Tensor::empty({m, n}, in.x.dtype());
  kernels::gemm({.m = m,
                 .n = n,
                 .k = k,
                 .a = {in.x.raw(), type, k, 1},
                 .b = {in.w.raw(), type, 1, k},
                 .c = y.raw(),
                 .c_type = type,
                 .c_stride = n,
                 .epilogue = epilogue});
  return y;
}

class ProductEpilogue : public ::testing::TestWithParam<DType> {};

TEST_P(ProductEpilogue, HasTheBitsOfItsSteps) {
  const DType type = GetParam();
  for_each_target([&](const char* target) {
    for (const int64_t m : {1, 13, 40, 200}) {
      for (const int64_t n : {1, 33, 160}) {
        for (const int64_t k : {3, 800, 1700}) {
          const Operands in{random_normal({m, k}, DType::f32, 1).to(type),
                            random_normal({n, k}, DType::f32, 2).to(type),
                            random_normal({n}, DType::f32, 3).to(type),
                            random_normal({m, n}, DType::f32, 4).to(type)};
          for (const bool biased : {false, true}) {
            kernels::Epilogue plain;
            plain.bias = biased ? in.bias.raw() : nullptr;
            const Tensor z = product(in, plain);
            const Tensor activated = activate(z, Activation::gelu);
            const Tensor before = Tensor::empty({m, n}, type);
            kernels::Epilogue all = plain;
            all.before = before.raw();
            all.activation = kernels::Unary::gelu;
            all.residual = in.residual.raw();
            all.residual_stride = n;
            const auto where = fmt::format("{} {} [{}, {}, {}]", target, name_of(type), m, n, k);
            ASSERT_TRUE(same_bits(product(in, all), add(activated, in.residual))) << where;
            ASSERT_TRUE(same_bits(before, z)) << where;
            kernels::Epilogue straight = plain;
            straight.residual = in.residual.raw();
            straight.residual_stride = n;
            ASSERT_TRUE(same_bits(product(in, straight), add(z, in.residual))) << where;
          }
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Types, ProductEpilogue,
                         ::testing::Values(DType::f32, DType::bf16, DType::f16, DType::f64),
                         [](const auto& each) { return std::string(name_of(each.param)); });

}  // namespace
}  // namespace heed::test
