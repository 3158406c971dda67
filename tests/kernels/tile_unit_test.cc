// The bf16 product on AMX tiles: packing, loops, edges and the order of its sums. Runs on a model
// of the tile instructions, and the machine code either on the processor's tiles or, where it has
// none, through the same model.
#include "kernels/tile_unit.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "heed/ops.h"
#include "heed/runtime.h"
#include "kernels/packed_weights.h"
#include "support/amx_emulator.h"
#include "support/bf16_operand.h"
#include "support/check.h"
#include "support/software_tiles.h"

namespace heed::test {
namespace {

using kernels::AmxState;
using kernels::Element;
using kernels::kTileUnit;
using kernels::Matrix;

enum class Tiles { model, machine_code };

class TileProduct : public ::testing::TestWithParam<Tiles> {
 protected:
  void SetUp() override {
    if (!kernels::uses_bf16_instructions()) {
      GTEST_SKIP() << "panels of pairs need AVX-512 BF16";
    }
    if (GetParam() == Tiles::machine_code) {
      const AmxState state = kernels::amx_state();
      if (state == AmxState::absent) {
        emulator_.emplace();
      } else if (state != AmxState::in_use) {
        GTEST_SKIP() << "AMX is there, but not in use";
      }
    }
    kernels::use_tile_unit(unit());
  }
  void TearDown() override {
    EXPECT_EQ(SoftwareTiles::holders, 0) << "tiles were not released";
    const bool on_model = GetParam() == Tiles::model || emulator_.has_value();
    if (on_model && !IsSkipped()) {
      EXPECT_GT(SoftwareTiles::configurations, before_) << "tiles were not used";
    }
  }

  static const kernels::TileUnit* unit() {
    return GetParam() == Tiles::model ? &kTileUnit<SoftwareTiles> : kernels::amx_tiles();
  }

 private:
  const int before_ = SoftwareTiles::configurations;
  std::optional<AmxEmulator> emulator_;
  const ScopedTileUnit back_{nullptr};
};

/// An element of A · B + start in the order of the tiles: 32 products at a time, two chains.
float in_tile_order(const Bf16Operand& a, const Bf16Operand& b, int64_t row, int64_t column,
                    int64_t k, float start) {
  float sum = start;
  for (int64_t first = 0; first < k; first += 32) {
    float chain[2] = {0.0f, 0.0f};
    for (int64_t i = first; i < std::min(k, first + 32); ++i) {
      chain[i % 2] = std::fma(a.at(row, i), b.at(i, column), chain[i % 2]);
    }
    sum += chain[0] + chain[1];
  }
  return sum;
}

/// Also close to the exact product: each of at most k roundings loses 2⁻²⁴ of what is added up.
void expect_elements(const std::vector<float>& c, const ProductSizes& sizes, const Bf16Operand& a,
                     const Bf16Operand& b, float start, const std::string& what) {
  for (int64_t r = 0; r < sizes.m; ++r) {
    for (int64_t j = 0; j < sizes.n; ++j) {
      const float actual = c[static_cast<size_t>(r * sizes.n + j)];
      ASSERT_EQ(actual, in_tile_order(a, b, r, j, sizes.k, start)) << what << " " << r << " " << j;
      double exact = start, all = std::abs(start);
      for (int64_t i = 0; i < sizes.k; ++i) {
        const double term = static_cast<double>(a.at(r, i)) * static_cast<double>(b.at(i, j));
        exact += term;
        all += std::abs(term);
      }
      ASSERT_LE(std::abs(actual - exact), all * static_cast<double>(sizes.k + 1) * 0x1.0p-24);
    }
  }
}

TEST_P(TileProduct, AddsInTheOrderOfTheTilesToTheBit) {
  for (const ProductSizes& sizes :
       {ProductSizes{1, 1, 1}, ProductSizes{3, 5, 2}, ProductSizes{16, 16, 32},
        ProductSizes{17, 33, 31}, ProductSizes{32, 32, 64}, ProductSizes{33, 70, 77},
        ProductSizes{13, 33, 1601}, ProductSizes{150, 20, 100}, ProductSizes{1, 200, 96}}) {
    const auto& [m, n, k] = sizes;
    for (const DType b_type : {DType::bf16, DType::f32, DType::f16}) {
      for (const int order : {0, 1, 2, 3}) {
        const Bf16Operand a(m, k, DType::bf16, (order & 1) != 0, 1);
        const Bf16Operand b(k, n, b_type, (order & 2) != 0, 2);
        const float start = order == 1 ? 0.5f : 0.0f;
        const std::string what =
            fmt::format("{} x {} x {}, {}, order {}", m, n, k, name_of(b_type), order);
        expect_elements(product(sizes, a.matrix, b.matrix, start), sizes, a, b, start, what);
        if (b_type == DType::bf16) {
          const Tensor panels =
              Tensor::empty({kernels::packed_bytes(Element::bf16, n, k)}, DType::u8);
          kernels::pack_weights(b.matrix, n, k, panels.raw());
          Matrix packed = b.matrix;
          packed.interleaved = panels.raw();
          expect_elements(product(sizes, a.matrix, packed, start), sizes, a, b, start,
                          what + ", packed");
        }
      }
    }
  }
}

/// Neither k nor rows or columns are adjacent in memory.
TEST_P(TileProduct, TakesAnyStrides) {
  constexpr ProductSizes kSizes{19, 37, 41};
  const Bf16Operand a(2 * kSizes.m, 3 * kSizes.k, DType::bf16, false, 3);
  const Bf16Operand b(2 * kSizes.k, 3 * kSizes.n, DType::f32, false, 4);
  Bf16Operand some_a = a;
  some_a.matrix.row_stride *= 2;
  some_a.matrix.column_stride = 3;
  Bf16Operand some_b = b;
  some_b.matrix.row_stride *= 2;
  some_b.matrix.column_stride = 3;
  expect_elements(product(kSizes, some_a.matrix, some_b.matrix, 0.0f), kSizes, some_a, some_b, 0.0f,
                  "strides");
}

/// A row's result does not depend on the rows beside it or on the number of threads.
TEST_P(TileProduct, GivesTheSameBitsInAnyBatchAndOnAnyThreads) {
  const int before = thread_count();
  for (const ProductSizes& sizes : {ProductSizes{140, 40, 1601}, ProductSizes{300, 40, 70}}) {
    const auto& [m, n, k] = sizes;
    const Tensor x = random_normal({m, k}, DType::f32, 6).to(DType::bf16);
    for (const DType type : {DType::f32, DType::bf16}) {
      const Tensor w = random_normal({n, k}, DType::f32, 7).to(type);
      const Tensor bias = random_normal({n}, DType::f32, 8);
      const LinearOptions gelu{.activation = Activation::gelu};
      set_thread_count(1);
      const Tensor all = linear(x, w, bias, gelu);
      for (const int threads : {1, 3}) {
        set_thread_count(threads);
        expect_same_bits(linear(x, w, bias, gelu), all, fmt::format("{} threads", threads));
        for (const int64_t rows : {1, 2, 15, 16, 17, 40, 129}) {
          expect_same_bits(linear(slice(x, 0, m - rows, m), w, bias, gelu),
                           slice(all, 0, m - rows, m).contiguous(), fmt::format("{} rows", rows));
        }
      }
    }
  }
  set_thread_count(before);
}

/// C [m, n] and what the activation was given, with everything that can follow a product. The rows
/// of C are 7 elements further apart than they need to be.
struct Finished {
  Finished(const ProductSizes& sizes, DType type, bool activated)
      : c(Tensor::full({sizes.m, sizes.n + 7}, 5.0, type)),
        before(Tensor::full({sizes.m, sizes.n}, 6.0, type)) {
    const Tensor x = whole_numbers({sizes.m, sizes.k}, DType::bf16, 1);
    const Tensor w = whole_numbers({sizes.k, sizes.n}, DType::bf16, 2);
    const Tensor bias = whole_numbers({sizes.n}, type, 3);
    const Tensor residual = whole_numbers({sizes.m, sizes.n}, type, 4);
    kernels::gemm(
        {.m = sizes.m,
         .n = sizes.n,
         .k = sizes.k,
         .a = {x.raw(), Element::bf16, sizes.k, 1},
         .b = {w.raw(), Element::bf16, sizes.n, 1},
         .c = c.raw(),
         .c_type = type == DType::f32 ? Element::f32 : Element::bf16,
         .c_stride = sizes.n + 7,
         .epilogue = {.bias = bias.raw(),
                      .before = activated ? before.raw() : nullptr,
                      .activation = activated ? kernels::Unary::gelu : kernels::Unary::identity,
                      .residual = residual.raw(),
                      .residual_stride = sizes.n}});
  }

  Tensor c, before;

 private:
  static Tensor whole_numbers(const Shape& shape, DType type, uint64_t seed) {
    const Tensor numbers = random_indices(shape, 9, seed).to(DType::f32);
    return add(numbers, Tensor::full({1}, -4.0, DType::f32)).to(type);
  }
};

/// Whole numbers are exact in any order: with them every step after the product must have the bits
/// that it has without tiles, and nothing beside C may change.
void expect_bits_of_other_products(const ProductSizes& sizes, DType type, bool activated,
                                   const kernels::TileUnit* unit) {
  kernels::use_tile_unit(nullptr);
  const Finished plain(sizes, type, activated);
  kernels::use_tile_unit(unit);
  const Finished tiles(sizes, type, activated);
  const std::string what = fmt::format("{} x {}, {}", sizes.m, sizes.n, name_of(type));
  expect_same_bits(tiles.c, plain.c, what);
  expect_same_bits(tiles.before, plain.before, what);
}

TEST_P(TileProduct, FinishesAsOtherProductsDo) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const bool activated : {false, true}) {
      expect_bits_of_other_products({77, 90, 1650}, type, activated, unit());
    }
  }
}

/// Operands of more than 2²⁰ pairs: rows, then columns.
TEST_P(TileProduct, PacksLargeOperandsInParts) {
  expect_bits_of_other_products({1300, 16, 1601}, DType::bf16, true, unit());
  expect_bits_of_other_products({5, 1320, 1601}, DType::f32, true, unit());
}

/// The end of a panel is filled with zeros, not with what follows it: infinity times zero is NaN.
TEST_P(TileProduct, KeepsInfinityToItsColumn) {
  constexpr ProductSizes kSizes{18, 70, 37};
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::full({kSizes.m, kSizes.k}, 1.0, DType::f32).to(DType::bf16);
  Tensor w = Tensor::full({kSizes.n, kSizes.k}, 2.0, DType::f32);
  for (int64_t i = 0; i < kSizes.k; ++i) {
    w.data<float>()[32 * kSizes.k + i] = kInfinity;  // the first column of the second panel
  }
  w = w.to(DType::bf16);
  Matrix b{w.raw(), Element::bf16, 1, kSizes.k};
  const Tensor panels =
      Tensor::empty({kernels::packed_bytes(Element::bf16, kSizes.n, kSizes.k)}, DType::u8);
  kernels::pack_weights(b, kSizes.n, kSizes.k, panels.raw());
  for (const bool packed : {false, true}) {
    b.interleaved = packed ? panels.raw() : nullptr;
    const std::vector<float> c = product(kSizes, {x.raw(), Element::bf16, kSizes.k, 1}, b, 0.0f);
    for (size_t i = 0; i < c.size(); ++i) {
      ASSERT_EQ(c[i], i % kSizes.n == 32 ? kInfinity : 74.0f) << i;
    }
  }
}

TEST_P(TileProduct, GivesZerosWithoutK) {
  const BFloat16 none{};
  EXPECT_EQ(product({3, 40, 0}, {&none, Element::bf16, 1, 1}, {&none, Element::bf16, 40, 1}, 0.0f),
            std::vector<float>(120, 0.0f));
}

TEST_P(TileProduct, TakesSubnormalNumbersForZero) {
  const Tensor x = Tensor::full({2, 2}, 1e-39, DType::f32).to(DType::bf16);
  const Tensor w = Tensor::full({2, 2}, 1.0, DType::f32).to(DType::bf16);
  EXPECT_EQ(linear(x, w, {}).to(DType::f32).data<float>()[0], 0.0f);
}

INSTANTIATE_TEST_SUITE_P(Units, TileProduct, ::testing::Values(Tiles::model, Tiles::machine_code),
                         [](const auto& each) {
                           return each.param == Tiles::model ? "Model" : "MachineCode";
                         });

struct SwapsOperands : SoftwareTiles {
  template <int sum, int a, int b>
  static void dot() {
    SoftwareTiles::dot<sum, b, a>();
  }
};
/// One pair of k too few.
struct LosesAPair : SoftwareTiles {
  static void configure(kernels::TileShapes shapes) {
    shapes.row_bytes[4] = shapes.row_bytes[5] = 60;
    shapes.rows[6] = shapes.rows[7] = 15;
    SoftwareTiles::configure(shapes);
  }
};
struct ForgetsSums : SoftwareTiles {
  template <int tile>
  static void load(const void* from, int64_t bytes) {
    tile < 4 ? zero<tile>() : SoftwareTiles::load<tile>(from, bytes);
  }
};

TEST(TileCheck, FindsAUnitThatMultipliesWrongly) {
  if (!kernels::uses_bf16_instructions()) {
    GTEST_SKIP() << "panels of pairs need AVX-512 BF16";
  }
  const int before = SoftwareTiles::configurations;
  EXPECT_TRUE(kernels::computes_correctly(kTileUnit<SoftwareTiles>));
  EXPECT_GT(SoftwareTiles::configurations, before) << "the check did not use tiles";
  EXPECT_EQ(SoftwareTiles::holders, 0);
  EXPECT_FALSE(kernels::computes_correctly(kTileUnit<SwapsOperands>));
  EXPECT_FALSE(kernels::computes_correctly(kTileUnit<LosesAPair>));
  EXPECT_FALSE(kernels::computes_correctly(kTileUnit<ForgetsSums>));
}

}  // namespace
}  // namespace heed::test
