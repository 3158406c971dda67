// The f32 product whose rows of A stay in L2: they are read as they lie, and so are those of B that
// lie along the columns. Packing them would take longer than it saves. Per target: include inside
// foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_GEMM_IN_PLACE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_GEMM_IN_PLACE_INL_H_
#undef HEED_KERNELS_GEMM_IN_PLACE_INL_H_
#else
#define HEED_KERNELS_GEMM_IN_PLACE_INL_H_
#endif
// clang-format on

#include <algorithm>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/gemm_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

constexpr int64_t kInPlaceRows = int64_t{1} << 16;     // elements of A: a quarter of L2
constexpr int64_t kInPlaceColumns = int64_t{1} << 18;  // elements of B that stay in L2
constexpr int64_t kSeveralRows = 4;  // with fewer, few_rows() reads B as well as it can be read

/// Whether in_place_product() takes this product: all of it is f32, and a panel of B stays in L2.
template <class T>
bool takes_in_place(const Job<T>& job) {
  const bool plain = job.a.type == Element::f32 && job.b.type == Element::f32 && job.direct();
  const bool rows = job.a.column_stride == 1 || job.a.row_stride == 1;
  const bool columns = job.b.column_stride == 1 || job.m >= kSeveralRows;
  return plain && rows && columns && job.k <= kPanelDepth && job.m * job.k <= kInPlaceRows;
}

/// Whether it does so rather than few_rows(), which is for a B that comes from memory.
inline bool prefers_in_place(const Job<float>& job) {
  const bool near = job.b.column_stride == 1 && job.n * job.k <= kInPlaceColumns;
  return (near && job.m >= kSeveralRows) || job.m * job.n * job.k <= kSmallProduct;
}

/// An area of C, at most as wide as a panel, from rows of A as they lie and `b`, whose rows are
/// `b_stride` apart and at least half a panel wide.
template <class Panel>
void multiply_in_place(const Job<float>& job, const Area& area, const float* b, int64_t b_stride) {
  const auto* a = static_cast<const float*>(job.a.data);
  const int64_t panels = (area.rows + kRows - 1) / kRows;
  const int64_t height = (area.rows + panels - 1) / panels;
  constexpr bool kAlongRows = std::is_same_v<Panel, RowsInPlace>;
  for (int64_t done = 0; done < area.rows; done += height) {
    const int64_t row = area.row + done;
    const int64_t rows = std::min(height, area.rows - done);
    float* c = sums_of<float>(job, row, area.column, nullptr);
    const Piece<float, float, float> piece{
        .a = a + row * job.a.row_stride,
        .b = b,
        .b_stride = b_stride,
        .depth = job.k,
        .c = c,
        .c_stride = job.c_stride,
        .first = !job.accumulate,
        .a_stride = kAlongRows ? job.a.row_stride : job.a.column_stride};
    if (2 * area.width == columns<float>()) {
      run_micro_kernel<Panel, kVectors / 2>(rows, piece);
    } else {
      multiply_piece<Panel>(rows, area.width, piece, Fetched<float>{});
    }
    finish(job, row, area.column, rows, area.width, c, job.c_stride);
  }
}

inline void in_place_product(const Job<float>& job) {
  constexpr int64_t kWidth = columns<float>();
  const bool straight = job.b.column_stride == 1;
  const int64_t tall = (job.m + kTileRows - 1) / kTileRows;
  const int64_t wide = (job.n + kWidth - 1) / kWidth;
  parallel_for(tall * wide, [&](int64_t task) {
    const int64_t row = task % tall * kTileRows;
    const int64_t column = task / tall * kWidth;
    const Area area{row, column, std::min(kTileRows, job.m - row),
                    std::min(kWidth, job.n - column)};
    const bool as_it_lies = straight && 2 * area.width % kWidth == 0;
    const Scratch<float> panel(as_it_lies ? 1 : job.k * kWidth);
    const float* b = static_cast<const float*>(job.b.data) + column;
    if (!as_it_lies) {
      pack_b(job, column, area.width, 0, job.k, panel.data());
      b = panel.data();
    }
    const int64_t b_stride = as_it_lies ? job.b.row_stride : kWidth;
    if (job.a.column_stride == 1) {
      multiply_in_place<RowsInPlace>(job, area, b, b_stride);
    } else {
      multiply_in_place<ColumnsInPlace>(job, area, b, b_stride);
    }
  });
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_GEMM_IN_PLACE_INL_H_
