// The bf16 product on a tile unit (AMX): what is packed, and who multiplies what. Per target:
// include inside foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_GEMM_TILE_UNIT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_GEMM_TILE_UNIT_INL_H_
#undef HEED_KERNELS_GEMM_TILE_UNIT_INL_H_
#else
#define HEED_KERNELS_GEMM_TILE_UNIT_INL_H_
#endif
// clang-format on

#include <algorithm>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/gemm_bf16-inl.h"
#include "kernels/gemm_bfmmla-inl.h"
#include "kernels/tile_unit.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

#if HEED_BF16_INSTRUCTIONS

constexpr int64_t kUnitRows = 128;  // of C that one thread multiplies at a time, and
constexpr int64_t kUnitColumns = 64;
static_assert(kPanelDepth % kTileSide == 0 && kPackedColumns == kBlockSide);

/// Gives a thread its tiles for the length of a scope.
class TileScope {
 public:
  explicit TileScope(const TileUnit& unit) : unit_(unit) { unit_.configure(); }
  ~TileScope() { unit_.release(); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  const TileUnit& unit_;
};

/// Pairs of up to 16 rows of A, k in the upper half as in panels of B: [16][depth], zeros past the
/// end of rows and of k.
inline void pack_tile_rows(const Job<float>& job, int64_t row, int64_t depth, uint32_t* to) {
  const hn::ScalableTag<float> df;
  const hn::ScalableTag<uint32_t> d;
  const Matrix& a = job.a;
  const auto* from = static_cast<const BFloat16*>(a.data) + row * a.row_stride;
  const int64_t rows = std::min(kTileSide, job.m - row);
  if (a.column_stride == 1) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t s = 0; s < depth; s += kTileSide) {
        const auto pairs = load_pairs(from + r * a.row_stride + 2 * s, job.k - 2 * s);
        hn::StoreU(PairVec{_mm512_rol_epi32(pairs.raw, 16)}, d, to + r * depth + s);
      }
    }
    std::fill_n(to + rows * depth, (kTileSide - rows) * depth, 0u);
    return;
  }
  // Neighbours along the rows at one k, or gathered as such, and transposed.
  BFloat16 gathered[2][kTileSide];
  const auto neighbours = [&](int64_t k, BFloat16* copy) -> const BFloat16* {
    const BFloat16* at = from + k * a.column_stride;
    if (k >= job.k || a.row_stride == 1) {
      return k >= job.k ? nullptr : at;
    }
    for (int64_t r = 0; r < rows; ++r) {
      copy[r] = at[r * a.row_stride];
    }
    return copy;
  };
  for (int64_t s = 0; s < depth; s += kTileSide) {
    const auto line = [&](int i) HWY_ATTR {
      const int64_t k = 2 * (s + i);
      const BFloat16* upper = neighbours(k, gathered[0]);
      const BFloat16* lower = neighbours(k + 1, gathered[1]);
      return hn::BitCast(df, join_pairs(upper, lower, rows));
    };
    FloatVec transposed[kTileSide];
    transpose_lines(df, line, transposed);
    for (int64_t r = 0; r < kTileSide; ++r) {
      hn::StoreU(hn::BitCast(d, transposed[r]), d, to + r * depth + s);
    }
  }
}

/// Operands of a part of C as the unit reads them. `a` holds rows from `first_row` on, `depth`
/// words each; `b` is panels [steps][32] of columns from `first_column` on.
struct UnitOperands {
  const uint32_t* a;
  int64_t first_row;
  int64_t depth;
  const uint32_t* b;
  int64_t first_column;
  int64_t steps;
};

/// An area of C: a block of k at a time, sums wait in C or a buffer. The area starts at whole
/// blocks of the operands.
inline void multiply_area(const Job<float>& job, const TileUnit& unit, const UnitOperands& from,
                          const Area& area) {
  const int64_t stride = job.direct() ? job.c_stride : kUnitColumns;
  const Scratch<float> buffer(job.direct() ? 1 : kUnitRows * kUnitColumns);
  float* sums = sums_of(job, area.row, area.column, buffer.data());
  const uint32_t* a = from.a + (area.row - from.first_row) * from.depth;
  const uint32_t* b = from.b + (area.column - from.first_column) * from.steps;
  const TileScope tiles(unit);
  for (int64_t step = 0; step == 0 || step < from.steps; step += kPanelDepth) {
    const int64_t steps = std::min(kPanelDepth, from.steps - step);
    for (int64_t j = 0; j < area.width; j += kBlockSide) {
      for (int64_t i = 0; i < area.rows; i += kBlockSide) {
        const TileBlock block{.a = a + i * from.depth + step,
                              .a_stride = from.depth,
                              .b = b + j * from.steps + step * kBlockSide,
                              .steps = steps,
                              .c = sums + i * stride + j,
                              .c_stride = stride,
                              .rows = std::min(kBlockSide, area.rows - i),
                              .width = std::min(kBlockSide, area.width - j),
                              .first = step == 0 && !job.accumulate};
        unit.multiply(block);
        if (step + steps == from.steps) {
          finish(job, area.row + i, area.column + j, block.rows, block.width, block.c, stride);
        }
      }
    }
  }
}

/// Columns [first, end) of C from panels of B.
inline void multiply_columns(const Job<float>& job, const TileUnit& unit, const Bf16Pair* panels,
                             int64_t first, int64_t end) {
  const int64_t steps = Bf16Pairs::steps(job.k);
  const int64_t depth = round_up(steps, kTileSide);
  each_shared_part(job.m, std::max(depth, kTileSide), kBlockSide, [&](int64_t top, int64_t bottom) {
    Scratch<uint32_t> a(std::max<int64_t>(1, round_up(bottom - top, kTileSide) * depth));
    parallel_for((bottom - top + kTileSide - 1) / kTileSide, [&](int64_t i) {
      pack_tile_rows(job, top + i * kTileSide, depth, a.data() + i * kTileSide * depth);
    });
    const UnitOperands operands{a.data(), top,  depth, reinterpret_cast<const uint32_t*>(panels),
                                first,    steps};
    const int64_t tall = (bottom - top + kUnitRows - 1) / kUnitRows;
    const int64_t wide = (end - first + kUnitColumns - 1) / kUnitColumns;
    parallel_for(tall * wide, [&](int64_t task) {
      const int64_t row = top + task % tall * kUnitRows;
      const int64_t column = first + task / tall * kUnitColumns;
      multiply_area(
          job, unit, operands,
          {row, column, std::min(kUnitRows, bottom - row), std::min(kUnitColumns, end - column)});
    });
  });
}

/// Every product in bf16 on a machine with a unit, whatever its shape.
inline void tile_unit_product(const Job<float>& job, const TileUnit& unit) {
  if (job.b.interleaved != nullptr) {
    multiply_columns(job, unit, static_cast<const Bf16Pair*>(job.b.interleaved), 0, job.n);
    return;
  }
  const int64_t steps = std::max<int64_t>(1, Bf16Pairs::steps(job.k));
  each_shared_part(job.n, steps, kBlockSide, [&](int64_t first, int64_t end) {
    Scratch<Bf16Pair> panels(round_up(end - first, kBlockSide) * steps);
    parallel_for((end - first + kBlockSide - 1) / kBlockSide, [&](int64_t panel) {
      const int64_t column = first + panel * kBlockSide;
      Bf16Pairs::pack_b(job,
                        {.step = 0,
                         .depth = Bf16Pairs::steps(job.k),
                         .first = column,
                         .count = std::min(kBlockSide, end - column)},
                        panels.data() + panel * kBlockSide * steps, kBlockSide * steps);
    });
    multiply_columns(job, unit, panels.data(), first, end);
  });
}

#endif

/// The product in bf16. `instructions`: whether the machine has AVX-512 BF16 or BFMMLA; `unit`: its
/// tiles. Both only if they are to be used.
inline void bf16_product(const Job<float>& job, [[maybe_unused]] bool instructions,
                         [[maybe_unused]] const TileUnit* unit) {
#if HEED_BF16_INSTRUCTIONS
  if (instructions && unit != nullptr) {
    tile_unit_product(job, *unit);
    return;
  }
  if (instructions) {
    many_rows<Bf16Pairs>(job);
    return;
  }
#elif HEED_BFMMLA
  if (instructions) {
    bfmmla_product(job);
    return;
  }
#endif
  Job<float> rounded = job;
  rounded.b.interleaved = nullptr;  // pairs
  many_rows<RoundedToBf16>(rounded);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_GEMM_TILE_UNIT_INL_H_
