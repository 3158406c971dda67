// The micro-kernel of the floating product and the panels it reads. Per target: include inside
// foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_GEMM_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_GEMM_KERNEL_INL_H_
#undef HEED_KERNELS_GEMM_KERNEL_INL_H_
#else
#define HEED_KERNELS_GEMM_KERNEL_INL_H_
#endif
// clang-format on

#include <algorithm>

#include "kernels/bf16-inl.h"
#include "kernels/gemm_epilogue-inl.h"
#include "kernels/pack-inl.h"
#include "kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

#if HWY_TARGET <= HWY_AVX3
constexpr int kRows = 12;  // 24 accumulators of 32 registers
#else
constexpr int kRows = 6;  // 12 accumulators of 16
#endif
constexpr int kVectors = 2;           // of columns
constexpr int64_t kDepth = 384;       // k at a time with few rows
constexpr int64_t kPanelDepth = 768;  // k at a time with many: fewer trips of C through L1
constexpr int64_t kTileRows = 144;    // a tile of C: with its panels about 3/4 of L2
constexpr int64_t kTileColumns = 128;
constexpr int64_t kStripRows = 48;                     // what one thread packs at a time, and
constexpr int64_t kStripColumns = 64;                  // multiplies by all columns or rows
constexpr int64_t kSharedElements = int64_t{1} << 20;  // in panels that all strips read
constexpr int64_t kNearRows = int64_t{1} << 17;        // elements of A that stay in L2

template <class T>
constexpr int64_t columns() {
  return kVectors * static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
}

inline int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

/// How a panel of A lies. As rows, [rows][kDepth]: cheap to make, for few rows.
struct AsRows {
  static constexpr int64_t kRow = kDepth, kStep = 1;
};
/// Transposed, [depth][kRows]: one stream instead of kRows, and the next panel is fetched
/// meanwhile.
struct Transposed {
  static constexpr int64_t kRow = 1, kStep = kRows;
};
/// The same where B's panels were packed long ago and come from memory: what follows them is
/// fetched.
struct TransposedStream : Transposed {};
/// Not packed: rows of A as they lie in memory, or its columns.
struct RowsInPlace {};
struct ColumnsInPlace {};

/// Rows that the end of a tile reads or writes, `step` bytes apart.
struct FetchedRows {
  const char* first = nullptr;
  int64_t step = 0;
};

/// What a micro-kernel fetches while it multiplies: the next panel of A, for TransposedStream
/// `far`, `far_step` bytes further with every step of k, and before a piece of C is finished its
/// residual and the place where it goes if its sums are elsewhere.
template <class P>
struct Fetched {
  const P* next = nullptr;
  const char* far = nullptr;
  int64_t far_step = 0;
  FetchedRows residual;
  FetchedRows result;
};

template <class Panel>
constexpr bool kIsTransposed = std::is_base_of_v<Transposed, Panel>;

/// Where a panel holds row r at step i of k; `stride` is that of a panel in place.
template <class Panel>
HWY_INLINE int64_t panel_index(int64_t r, int64_t i, int64_t stride) {
  if constexpr (std::is_same_v<Panel, RowsInPlace>) {
    return r * stride + i;
  } else if constexpr (std::is_same_v<Panel, ColumnsInPlace>) {
    return r + i * stride;
  } else {
    return r * Panel::kRow + i * Panel::kStep;
  }
}

HWY_INLINE void fetch_to_write(const void* p) {
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
  __builtin_prefetch(p, 1, 3);
#else
  (void)p;
#endif
}

/// What a micro-kernel multiplies over `depth` steps of k: a panel of A by columns of B, whose rows
/// are `b_stride` apart; in the compute type, or converted on the way.
template <class P, class B, class T>
struct Piece {
  const P* a;
  const B* b;
  int64_t b_stride;
  int64_t depth;
  T* c;
  int64_t c_stride;
  bool first;            ///< sums start at zero, not at C
  int64_t a_stride = 0;  ///< of a panel in place: from one row, or one column, to the next
};

/// C[rows, vectors] (+)= panel of A · columns of B.
template <class Panel, int rows, int vectors, class P, class B, class T>
HWY_NOINLINE void micro_kernel(const Piece<P, B, T>& piece, const Fetched<P>& fetch) {
  using S = Step<T, B>;
  const P* HWY_RESTRICT a = piece.a;
  const B* HWY_RESTRICT b = piece.b;
  const int64_t b_stride = piece.b_stride;
  const int64_t depth = piece.depth;
  T* c = piece.c;
  const int64_t c_stride = piece.c_stride;
  const int64_t a_stride = piece.a_stride;
  const bool first = piece.first;
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<decltype(d)> sum[rows][vectors];
  HWY_UNROLL(16)
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      sum[r][v] = first ? hn::Zero(d) : hn::LoadU(d, c + r * c_stride + v * lanes);
    }
  }
  const auto step = [&](int64_t i) HWY_ATTR {
    hn::Vec<typename S::D> value[vectors];
    for (int v = 0; v < vectors; ++v) {
      value[v] = S::row(b + v * lanes);
    }
    if constexpr (kIsTransposed<Panel>) {
      hwy::Prefetch(fetch.next + i * kRows);
    }
    if constexpr (std::is_same_v<Panel, TransposedStream>) {
      fetch_later(fetch.far + i * fetch.far_step);
    }
    HWY_UNROLL(16)
    for (int r = 0; r < rows; ++r) {
      const auto x = S::factor(a[panel_index<Panel>(r, i, a_stride)]);
      for (int v = 0; v < vectors; ++v) {
        sum[r][v] = S::add(sum[r][v], x, value[v]);
      }
    }
    b += b_stride;
  };
  int64_t i = 0;
  if constexpr (kIsTransposed<Panel>) {
    // C's lines are asked for a few at a time: stores to lines that are not there would wait.
    constexpr int64_t kApart = 16;
    for (int r = 0; r < rows && i + kApart <= depth; ++r) {
      for (int v = 0; v < vectors; ++v) {
        fetch_to_write(c + r * c_stride + v * lanes);
      }
      if (fetch.residual.first != nullptr) {
        hwy::Prefetch(fetch.residual.first + r * fetch.residual.step);
      }
      if (fetch.result.first != nullptr) {
        fetch_to_write(fetch.result.first + r * fetch.result.step);
      }
      for (const int64_t end = i + kApart; i < end; ++i) {
        step(i);
      }
    }
  }
  for (; i < depth; ++i) {
    step(i);
  }
  HWY_UNROLL(16)
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      hn::StoreU(sum[r][v], d, c + r * c_stride + v * lanes);
    }
  }
}

template <class Panel, int vectors, int rows = kRows, class P, class B, class T>
void run_micro_kernel(int64_t wanted, const Piece<P, B, T>& piece, const Fetched<P>& fetch = {}) {
  if constexpr (rows > 1) {
    if (wanted < rows) {
      run_micro_kernel<Panel, vectors, rows - 1>(wanted, piece, fetch);
      return;
    }
  }
  micro_kernel<Panel, rows, vectors>(piece, fetch);
}

/// The same with packed panels of both, where the piece of C may be narrower: through a buffer.
template <class Panel, class P, class T>
void multiply_piece(int64_t rows, int64_t width, const Piece<P, P, T>& piece,
                    const Fetched<P>& fetch) {
  constexpr int64_t kWidth = columns<T>();
  if (width == kWidth) {
    run_micro_kernel<Panel, kVectors>(rows, piece, fetch);
    return;
  }
  HWY_ALIGN T buffer[kRows * kWidth];
  for (int64_t r = 0; r < rows && !piece.first; ++r) {
    std::copy_n(piece.c + r * piece.c_stride, width, buffer + r * kWidth);
    std::fill_n(buffer + r * kWidth + width, kWidth - width, T{0});
  }
  Piece<P, P, T> buffered = piece;
  buffered.c = buffer;
  buffered.c_stride = kWidth;
  run_micro_kernel<Panel, kVectors>(rows, buffered, fetch);
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(buffer + r * kWidth, width, piece.c + r * piece.c_stride);
  }
}

/// Calls fn with B's data in its own floating type.
template <class T, class Fn>
void with_type(const Matrix& b, Fn&& fn) {
  if constexpr (std::is_same_v<T, double>) {
    fn(static_cast<const double*>(b.data));
  } else if (b.type == Element::f16) {
    fn(static_cast<const Half*>(b.data));
  } else if (b.type == Element::bf16) {
    fn(static_cast<const BFloat16*>(b.data));
  } else {
    fn(static_cast<const float*>(b.data));
  }
}

/// Rows [k, k + depth) of `width` columns of B as a panel [depth][columns()].
template <class T>
void pack_b(const Job<T>& job, int64_t column, int64_t width, int64_t k, int64_t depth, T* panel) {
  constexpr int64_t kWidth = columns<T>();
  if constexpr (std::is_same_v<T, float> && kWidth % kStreams == 0) {
    if (job.b.row_stride == 1 && job.b.type == Element::f32) {
      const auto* data = static_cast<const float*>(job.b.data);
      const uint8_t* row[kWidth];
      for (int64_t j = 0; j < kWidth; ++j) {  // past the end the last column again
        row[j] = reinterpret_cast<const uint8_t*>(data + (column + std::min(j, width - 1)) *
                                                             job.b.column_stride);
      }
      for (int64_t j = 0; j < kWidth; j += kStreams) {
        pack_transposed(row + j, k, depth, panel + j, kWidth);
      }
      return;
    }
  }
  if (width < kWidth) {
    std::fill_n(panel, depth * kWidth, T{0});
  }
  pack(job.b, k, column, depth, width, panel, kWidth);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_GEMM_KERNEL_INL_H_
