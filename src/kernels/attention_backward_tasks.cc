// How the backward pass of attention is split into tasks.
#include <algorithm>
#include <type_traits>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/attention_backward.h"
#include "kernels/convert.h"

namespace heed::kernels {

namespace {

constexpr int64_t kTile = 64;
constexpr int64_t kTogether = 4;  // tiles of queries that go over the keys together

template <class T>
void clear_rows(const HeadsView<T>& view, int64_t b, int64_t h, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    std::fill_n(view.at(b, h, r), columns, T{0});
  }
}

/// How the work is cut. Every task owns its rows of dk and dv, and its elements of dbias, so
/// nothing is added from two sides. Depends on shapes only.
struct Plan {
  bool join_batches = false;  // one task for all batches: dbias is shared between them
  bool join_heads = false;
  int64_t splits = 1;  // query ranges of a head, each with its own dk and dv, added up in order
};

template <class T>
Plan make_plan(const AttentionProblem<T>& p, const ScoreView<Compute<T>>& dbias) {
  constexpr int64_t kEnough = 8;  // tasks
  Plan plan;
  if (dbias.data != nullptr) {
    plan.join_batches = dbias.batch == 0 && p.batch > 1;
    plan.join_heads = dbias.head == 0 && p.heads > 1;
  }
  const int64_t tasks = (plan.join_batches ? 1 : p.batch) * (plan.join_heads ? 1 : p.kv_heads);
  const int64_t tiles = (p.queries + kTile - 1) / kTile;
  if (tasks < kEnough && tiles >= 8 && (dbias.data == nullptr || dbias.query != 0)) {
    plan.splits = 4;
  }
  // Each further split has arrays of its own: no more than this for all of them.
  constexpr int64_t kMostBytes = 48 << 20;
  const int64_t array = p.batch * p.kv_heads * p.keys * (p.depth + p.value_depth) *
                        static_cast<int64_t>(sizeof(Compute<T>));
  while (plan.splits > 1 && (plan.splits - 1) * array > kMostBytes) {
    plan.splits /= 2;
  }
  return plan;
}

/// The first splits' sums are the result itself where that is of their type; all others have arrays
/// of their own, laid out [B, Hkv, Tk, D].
template <class T>
class SplitGradients {
 public:
  using C = Compute<T>;

  SplitGradients(const AttentionProblem<T>& p, const AttentionGradients<T>& result, int64_t splits)
      : p_(p),
        result_(result),
        splits_(splits),
        dk_size_(p.batch * p.kv_heads * p.keys * p.depth),
        dv_size_(p.batch * p.kv_heads * p.keys * p.value_depth),
        partial_(std::max<int64_t>(1, (splits - kInPlace) * (dk_size_ + dv_size_))) {}

  HeadsView<C> dk(int64_t split) const {
    if constexpr (kInPlace == 1) {
      if (split == 0) {
        return result_.dk;
      }
    }
    return {at(split), p_.kv_heads * p_.keys * p_.depth, p_.keys * p_.depth, p_.depth};
  }
  HeadsView<C> dv(int64_t split) const {
    if constexpr (kInPlace == 1) {
      if (split == 0) {
        return result_.dv;
      }
    }
    return {at(split) + dk_size_, p_.kv_heads * p_.keys * p_.value_depth, p_.keys * p_.value_depth,
            p_.value_depth};
  }

  /// Adds the others to split 0, in their order, and makes that the result.
  void add_up() {
    if (splits_ == kInPlace) {
      return;
    }
    constexpr int64_t kRows = 64;
    parallel_ranges(p_.batch * p_.kv_heads * p_.keys, kRows, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t j = task % p_.keys;
        const int64_t kv = task / p_.keys % p_.kv_heads;
        const int64_t b = task / p_.keys / p_.kv_heads;
        for (int64_t split = 1; split < splits_; ++split) {
          add_row(dk(0).at(b, kv, j), dk(split).at(b, kv, j), p_.depth);
          add_row(dv(0).at(b, kv, j), dv(split).at(b, kv, j), p_.value_depth);
        }
        if constexpr (kInPlace == 0) {
          convert(result_.dk.at(b, kv, j), dk(0).at(b, kv, j), p_.depth);
          convert(result_.dv.at(b, kv, j), dv(0).at(b, kv, j), p_.value_depth);
        }
      }
    });
  }

 private:
  static constexpr int64_t kInPlace = std::is_same_v<T, C> ? 1 : 0;

  static void add_row(C* into, const C* from, int64_t columns) {
    for (int64_t c = 0; c < columns; ++c) {
      into[c] += from[c];
    }
  }
  C* at(int64_t split) const {
    return partial_.data() + (split - kInPlace) * (dk_size_ + dv_size_);
  }

  const AttentionProblem<T>& p_;
  const AttentionGradients<T>& result_;
  int64_t splits_;
  int64_t dk_size_;
  int64_t dv_size_;
  Scratch<C> partial_;
};

/// All queries of `tiles` [begin, end) that look at one key head.
template <class T>
void backward_key_head(const BackwardPass<T>& pass, int64_t b, int64_t kv, int64_t begin,
                       int64_t end) {
  const AttentionProblem<T>& p = pass.problem;
  const int64_t group = p.heads / p.kv_heads;
  clear_rows(pass.dk, b, kv, p.keys, p.depth);
  clear_rows(pass.dv, b, kv, p.keys, p.value_depth);
  for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
    for (int64_t tile = begin; tile < end; tile += kTogether) {
      attention_backward_tiles(pass, b, h, tile, std::min(tile + kTogether, end));
    }
  }
}

}  // namespace

template <class T>
void attention_backward(const AttentionProblem<T>& p, HeadsView<const T> out,
                        HeadsView<const T> dout, RowStats<const Compute<T>> stats,
                        const AttentionGradients<T>& gradients) {
  const Plan plan = make_plan(p, gradients.dbias);
  const int64_t tiles = (p.queries + kTile - 1) / kTile;
  const int64_t batches = plan.join_batches ? p.batch : 1;
  const int64_t kv_heads = plan.join_heads ? p.kv_heads : 1;
  SplitGradients<T> split_gradients(p, gradients, plan.splits);
  const auto run = [&](int64_t task) {
    const int64_t split = plan.splits - 1 - task % plan.splits;  // later queries have more work
    const int64_t first_kv_head = task / plan.splits % (p.kv_heads / kv_heads) * kv_heads;
    const int64_t first_batch = task / plan.splits / (p.kv_heads / kv_heads) * batches;
    const BackwardPass<T> pass{p,
                               out,
                               dout,
                               stats,
                               gradients.dq,
                               split_gradients.dk(split),
                               split_gradients.dv(split),
                               gradients.dbias};
    for (int64_t b = first_batch; b < first_batch + batches; ++b) {
      for (int64_t kv = first_kv_head; kv < first_kv_head + kv_heads; ++kv) {
        backward_key_head(pass, b, kv, tiles * split / plan.splits,
                          tiles * (split + 1) / plan.splits);
      }
    }
  };
  parallel_ranges((p.batch / batches) * (p.kv_heads / kv_heads) * plan.splits,
                  p.kv_heads_together(), [&](int64_t begin, int64_t end) {
                    for (int64_t task = begin; task < end; ++task) {
                      run(task);
                    }
                  });
  split_gradients.add_up();
}
template void attention_backward(const AttentionProblem<float>&, HeadsView<const float>,
                                 HeadsView<const float>, RowStats<const float>,
                                 const AttentionGradients<float>&);
template void attention_backward(const AttentionProblem<double>&, HeadsView<const double>,
                                 HeadsView<const double>, RowStats<const double>,
                                 const AttentionGradients<double>&);
template void attention_backward(const AttentionProblem<BFloat16>&, HeadsView<const BFloat16>,
                                 HeadsView<const BFloat16>, RowStats<const float>,
                                 const AttentionGradients<BFloat16>&);

}  // namespace heed::kernels
