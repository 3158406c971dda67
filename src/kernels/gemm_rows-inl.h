// The floating product with few rows of A (decoding): the time goes into reading B, so B is read
// once, in order, and what comes next is fetched meanwhile. Per target: include inside
// foreach_target files.
// clang-format off
#if defined(HEED_KERNELS_GEMM_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_GEMM_ROWS_INL_H_
#undef HEED_KERNELS_GEMM_ROWS_INL_H_
#else
#define HEED_KERNELS_GEMM_ROWS_INL_H_
#endif
// clang-format on

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/gemm_kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

constexpr int64_t kFewRows = 32;       // up to here B is read tile by tile
constexpr int64_t kFewRowsAlong = 48;  // the same where B lies along k and must be turned anyway
constexpr int64_t kShallow = 64;       // k at a time: a turn of B stays in L1
constexpr int64_t kStraight = 16;      // rows of B at a time where its rows are read as they lie

/// A packed for few rows, and where its rows begin.
struct FewRowsA {
  const Job<float>& job;
  const float* panels;  // [panel][block][kRows][kDepth]

  int64_t count() const { return (job.m + kRows - 1) / kRows; }
  int64_t rows(int64_t panel) const { return std::min<int64_t>(kRows, job.m - panel * kRows); }
  const float* at(int64_t panel, int64_t k) const {
    const int64_t block = k / kDepth;
    return panels + (panel * blocks_of(job) + block) * kRows * kDepth + (k - block * kDepth);
  }
};

/// One row of A times kStreams columns of B that lie along k, from the registers in which they are
/// turned.
inline void multiply_row(const FewRowsA& a, const uint8_t* const* row, float* c) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  FloatVec sum[kStreamVectors];
  for (int64_t v = 0; v < kStreamVectors; ++v) {
    sum[v] = hn::LoadU(d, c + v * lanes);
  }
  for (int64_t block = 0; block < a.job.k; block += kDepth) {
    const float* HWY_RESTRICT x = a.at(0, block);
    const int64_t depth = std::min(kDepth, a.job.k - block);
    int64_t k = 0;
    for (; k + kPiece <= depth; k += kPiece) {
      FloatVec value[kPiece][kStreamVectors];
      load_turned(row, (block + k) * 4, value);
      HWY_UNROLL(16)
      for (int64_t i = 0; i < kPiece; ++i) {
        const auto factor = hn::Set(d, x[k + i]);
        for (int64_t v = 0; v < kStreamVectors; ++v) {
          sum[v] = hn::MulAdd(factor, value[i][v], sum[v]);
        }
      }
    }
    for (; k < depth; ++k) {
      HWY_ALIGN float rest[kStreams];
      pack_turned(row, block + k, 1, rest, kStreams);
      for (int64_t v = 0; v < kStreamVectors; ++v) {
        sum[v] = hn::MulAdd(hn::Set(d, x[k]), hn::Load(d, rest + v * lanes), sum[v]);
      }
    }
  }
  for (int64_t v = 0; v < kStreamVectors; ++v) {
    hn::StoreU(sum[v], d, c + v * lanes);
  }
}

/// Columns of B that lie along k: kStreams of them side by side, each read on into the next.
/// `turned` is [m, places] in the streams' order and holds what the sums start from.
inline void tile_by_streams(const FewRowsA& a, const float* b, const Streams& streams,
                            float* turned) {
  const Job<float>& job = a.job;
  const int64_t stride = streams.places();
  constexpr int64_t kBytes = kShallow * static_cast<int64_t>(sizeof(float));
  HWY_ALIGN float panel[kShallow * kStreams];
  const uint8_t* row[kStreams];
  for (int64_t turn = 0; turn < streams.turns; ++turn) {
    float* sums = turned + turn * kStreams;
    streams.rows(reinterpret_cast<const uint8_t*>(b), job.b.column_stride * 4, turn, row);
    if (job.m == 1) {
      multiply_row(a, row, sums);
      continue;
    }
    for (int64_t k = 0; k < job.k; k += kShallow) {
      const int64_t depth = std::min(kShallow, job.k - k);
      for (int64_t j = 0; j < kStreams; ++j) {
        for (int64_t byte = 0; byte < kBytes; byte += 64) {
          fetch_later(row[j] + k / kShallow * kBytes + kBytes + byte);
        }
      }
      pack_turned(row, k, depth, panel, kStreams);
      for (int64_t p = 0; p < a.count(); ++p) {
        run_micro_kernel<AsRows, kStreamVectors>(a.rows(p), a.at(p, k), panel, kStreams, depth,
                                                 sums + p * kRows * stride, stride, false);
      }
    }
  }
}

/// Rows of B that lie along the columns are read as they lie, `width` columns (whole vectors) at a
/// time.
template <class B>
void tile_by_rows(const FewRowsA& a, const B* b, int64_t width, float* sums, int64_t stride) {
  constexpr int64_t kWidth = columns<float>();
  const Job<float>& job = a.job;
  for (int64_t k = 0; k < job.k; k += kStraight) {
    const int64_t depth = std::min(kStraight, job.k - k);
    for (int64_t column = 0; column < width; column += kWidth) {
      const B* from = b + k * job.b.row_stride + column;
      for (int64_t i = 0; i < depth && k + kStraight + i < job.k; ++i) {
        hwy::Prefetch(from + (i + kStraight) * job.b.row_stride);
      }
      for (int64_t p = 0; p < a.count(); ++p) {
        run_micro_kernel<AsRows, kVectors>(a.rows(p), a.at(p, k), from, job.b.row_stride, depth,
                                           sums + p * kRows * stride + column, stride, false);
      }
    }
  }
}

/// Whether few_rows() takes this product: one of B's strides is 1 (16-bit weights along k are not
/// its: gemm_lanes-inl.h).
template <class T>
bool takes_few_rows(const Job<T>& job) {
  return job.b.row_stride == 1 ? job.m <= kFewRowsAlong
                               : job.b.column_stride == 1 && job.m <= kFewRows;
}

/// One tile of C, columns [begin, begin + width), into `sums` [m, width].
inline void few_rows_tile(const FewRowsA& a, int64_t begin, int64_t width, float* sums,
                          int64_t stride) {
  const Job<float>& job = a.job;
  constexpr int64_t kWidth = columns<float>();
  const bool straight = job.b.column_stride == 1 && job.b.row_stride != 1;
  const int64_t whole = straight ? width / kWidth * kWidth : 0;
  for (int64_t r = 0; r < job.m && !job.accumulate; ++r) {
    std::fill_n(sums + r * stride, width, 0.0f);
  }
  with_type<float>(job.b, [&](const auto* data) {
    const auto* from = data + begin * job.b.column_stride;
    if (straight) {
      tile_by_rows(a, from, whole, sums, stride);
    }
    if (whole == width) {
      return;
    }
    // Along k, or the last columns of straight rows, which are packed.
    const Streams streams(width - whole);
    const int64_t places = straight ? kWidth : streams.places();
    Scratch<float> turned(job.m * places);
    const auto each = [&](auto&& fn) {
      if (!straight) {
        streams.each(fn);
        return;
      }
      for (int64_t c = 0; c < streams.width; ++c) {
        fn(c, c);
      }
    };
    std::fill_n(turned.data(), job.m * places, 0.0f);
    for (int64_t r = 0; r < job.m && job.accumulate; ++r) {
      const float* before = sums + r * stride + whole;
      each([&](int64_t c, int64_t place) { turned.data()[r * places + place] = before[c]; });
    }
    if (straight) {
      HWY_ALIGN float panel[kShallow * kWidth];
      for (int64_t k = 0; k < job.k; k += kShallow) {
        const int64_t depth = std::min(kShallow, job.k - k);
        pack_b(job, begin + whole, streams.width, k, depth, panel);
        for (int64_t p = 0; p < a.count(); ++p) {
          run_micro_kernel<AsRows, kVectors>(a.rows(p), a.at(p, k), panel, kWidth, depth,
                                             turned.data() + p * kRows * places, places, false);
        }
      }
    } else if constexpr (std::is_same_v<decltype(data), const float*>) {
      tile_by_streams(a, from, streams, turned.data());
    }
    for (int64_t r = 0; r < job.m; ++r) {
      float* to = sums + r * stride + whole;
      each([&](int64_t c, int64_t place) { to[c] = turned.data()[r * places + place]; });
    }
  });
}

inline void few_rows(const Job<float>& job) {
  const int64_t panels = (job.m + kRows - 1) / kRows;
  const int64_t a_panel = blocks_of(job) * kRows * kDepth;
  Scratch<float> packed_a(panels * a_panel);
  parallel_for(panels, [&](int64_t p) {
    pack_rows(job, p * kRows, std::min<int64_t>(kRows, job.m - p * kRows),
              packed_a.data() + p * a_panel);
  });
  const FewRowsA a{job, packed_a.data()};
  const int64_t tile = streamed_tile(job.n);
  parallel_for((job.n + tile - 1) / tile, [&](int64_t index) {
    const int64_t begin = index * tile;
    const int64_t width = std::min(tile, job.n - begin);
    Scratch<float> buffer(job.direct() ? 1 : job.m * tile);
    float* sums = sums_of(job, 0, begin, buffer.data());
    const int64_t stride = job.direct() ? job.c_stride : tile;
    few_rows_tile(a, begin, width, sums, stride);
    finish(job, 0, begin, job.m, width, sums, stride);
  });
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEED_KERNELS_GEMM_ROWS_INL_H_
