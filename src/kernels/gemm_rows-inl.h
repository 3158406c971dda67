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

constexpr int64_t kFewRows = 32;  // up to here B is read tile by tile
constexpr int64_t kFewRowsAlong =
    48;  // the same where B lies along k and must be transposed anyway
constexpr int64_t kWorthTurning = 65536;  // elements of B from which on that pays
constexpr int64_t kShallow = 64;          // k at a time: a transposed piece of B stays in L1
constexpr int64_t kStraight = 16;         // rows of B at a time where its rows are read as they lie

/// A packed for few rows: panels of evenly many rows (16 are 8 and 8, not 12 and 4), [panel][block]
/// [height][kDepth]. A single row lies in one piece.
struct FewRowsA {
  explicit FewRowsA(const Job<float>& of)
      : job(of),
        count((of.m + kRows - 1) / kRows),
        height((of.m + count - 1) / count),
        panels(count * panel_size()) {
    parallel_for(count, [&](int64_t panel) {
      float* to = panels.data() + panel * panel_size();
      for (int64_t k = 0; k < job.k; k += kDepth, to += height * kDepth) {
        pack(job.a, panel * height, k, rows(panel), std::min(kDepth, job.k - k), to, kDepth);
      }
    });
  }
  int64_t panel_size() const { return round_up(std::max<int64_t>(1, job.k), kDepth) * height; }
  int64_t rows(int64_t panel) const { return std::min(height, job.m - panel * height); }
  const float* at(int64_t panel, int64_t k) const {
    return panels.data() + panel * panel_size() + k / kDepth * kDepth * height + k % kDepth;
  }
  /// sums [m, vectors] += rows of A from k on · `depth` rows of B.
  template <int vectors, class B>
  void multiply(int64_t k, int64_t depth, const B* b, int64_t b_stride, float* sums,
                int64_t stride) const {
    for (int64_t panel = 0; panel < count; ++panel) {
      run_micro_kernel<AsRows, vectors>(rows(panel),
                                        Piece<float, B, float>{.a = at(panel, k),
                                                               .b = b,
                                                               .b_stride = b_stride,
                                                               .depth = depth,
                                                               .c = sums + panel * height * stride,
                                                               .c_stride = stride,
                                                               .first = false});
    }
  }

  const Job<float>& job;
  int64_t count, height;
  Scratch<float> panels;
};

/// One row of A times kStreams columns of B that lie along k, from the registers in which they are
/// transposed.
inline void multiply_row(const FewRowsA& a, const uint8_t* const* row, float* c) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  FloatVec sum[kStreamVectors];
  for (int64_t v = 0; v < kStreamVectors; ++v) {
    sum[v] = hn::LoadU(d, c + v * lanes);
  }
  const float* HWY_RESTRICT x = a.at(0, 0);
  const auto add = [&](auto piece, int64_t k) HWY_ATTR {
    constexpr int64_t kCount = decltype(piece)::value;
    FloatVec value[kCount][kStreamVectors];
    load_transposed<kCount>(row, k * 4, value);
    HWY_UNROLL(16)
    for (int64_t i = 0; i < kCount; ++i) {
      const auto factor = hn::Set(d, x[k + i]);
      for (int64_t v = 0; v < kStreamVectors; ++v) {
        sum[v] = hn::MulAdd(factor, value[i][v], sum[v]);
      }
    }
  };
  each_piece(row, 0, a.job.k, add, [&](int64_t k) HWY_ATTR {
    HWY_ALIGN float rest[kStreams];
    pack_transposed(row, k, 1, rest, kStreams);
    for (int64_t v = 0; v < kStreamVectors; ++v) {
      sum[v] = hn::MulAdd(hn::Set(d, x[k]), hn::Load(d, rest + v * lanes), sum[v]);
    }
  });
  for (int64_t v = 0; v < kStreamVectors; ++v) {
    hn::StoreU(sum[v], d, c + v * lanes);
  }
}

/// Columns of B that lie along k: kStreams of them side by side, each read on into the next.
/// `by_stream` is [m, places] in the streams' order and holds what the sums start from.
inline void tile_by_streams(const FewRowsA& a, const float* b, const Streams& streams,
                            float* by_stream) {
  const Job<float>& job = a.job;
  const int64_t stride = streams.places();
  constexpr int64_t kBytes = kShallow * static_cast<int64_t>(sizeof(float));
  HWY_ALIGN float panel[kShallow * kStreams];
  const uint8_t* row[kStreams];
  for (int64_t step = 0; step < streams.steps; ++step) {
    float* sums = by_stream + step * kStreams;
    streams.rows(reinterpret_cast<const uint8_t*>(b), job.b.column_stride * 4, step, row);
    if (job.m == 1) {
      multiply_row(a, row, sums);
      continue;
    }
    for (int64_t k = 0, depth = 0; k < job.k; k += depth) {
      const int64_t inside = reinterpret_cast<uintptr_t>(row[0] + 4 * k) % 64 / 4;  // a line
      depth = std::min({kShallow - inside, job.k - k, kDepth - k % kDepth});
      for (int64_t j = 0; j < kStreams; ++j) {
        for (int64_t byte = 0; byte < kBytes; byte += 64) {
          fetch_later(row[j] + 4 * (k + depth) + byte);
        }
      }
      pack_transposed(row, k, depth, panel, kStreams);
      a.multiply<kStreamVectors>(k, depth, panel, kStreams, sums, stride);
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
      a.multiply<kVectors>(k, depth, from, job.b.row_stride, sums + column, stride);
    }
  }
}

/// Whether few_rows() takes this product: one of B's strides is 1 (16-bit weights along k are not
/// its: gemm_lanes-inl.h).
template <class T>
bool takes_few_rows(const Job<T>& job) {
  if (job.b.row_stride != 1 && job.b.column_stride != 1) {
    return false;
  }
  const bool many = job.b.row_stride == 1 && job.n * job.k >= kWorthTurning;
  return job.m <= (many ? kFewRowsAlong : kFewRows);
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
    Scratch<float> by_stream(job.m * places);
    const auto each = [&](auto&& fn) {
      if (!straight) {
        streams.each(fn);
        return;
      }
      for (int64_t c = 0; c < streams.width; ++c) {
        fn(c, c);
      }
    };
    std::fill_n(by_stream.data(), job.m * places, 0.0f);
    for (int64_t r = 0; r < job.m && job.accumulate; ++r) {
      const float* before = sums + r * stride + whole;
      each([&](int64_t c, int64_t place) { by_stream.data()[r * places + place] = before[c]; });
    }
    if (straight) {
      HWY_ALIGN float panel[kShallow * kWidth];
      for (int64_t k = 0; k < job.k; k += kShallow) {
        const int64_t depth = std::min(kShallow, job.k - k);
        pack_b(job, begin + whole, streams.width, k, depth, panel);
        a.multiply<kVectors>(k, depth, panel, kWidth, by_stream.data(), places);
      }
    } else if constexpr (std::is_same_v<decltype(data), const float*>) {
      tile_by_streams(a, from, streams, by_stream.data());
    }
    for (int64_t r = 0; r < job.m; ++r) {
      float* to = sums + r * stride + whole;
      each([&](int64_t c, int64_t place) { to[c] = by_stream.data()[r * places + place]; });
    }
  });
}

inline void few_rows(const Job<float>& job) {
  const FewRowsA a(job);
  const bool straight = job.b.column_stride == 1 && job.b.row_stride != 1;
  const int64_t tile = round_up(streamed_tile(job.n), straight ? columns<float>() : 1);
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
