#include "autograd/node.h"
#include "base/check.h"
#include "base/parallel.h"
#include "base/samples.h"
#include "heed/attention.h"
#include "heed/ops.h"
#include "ops/attention_problem.h"
#include "tensor/dispatch.h"

namespace heed {
namespace {

constexpr const char* kRagged = "ragged_attention";
constexpr int64_t kLong = 512;  // from this length on a sequence has work for all threads

/// Sequences that lie one after the other in the rows of q, and of k and v.
struct Sequences {
  std::vector<int64_t> query_starts;
  std::vector<int64_t> key_starts;
  std::vector<RandomKey> random;

  int64_t count() const { return static_cast<int64_t>(query_starts.size()) - 1; }

  /// Calls fn(sequence): many at a time where they are short, else one by one, each on all threads.
  template <class Fn>
  void for_each(Fn&& fn) const {
    int64_t longest = 0;
    for (size_t i = 1; i < query_starts.size(); ++i) {
      longest = std::max(longest, query_starts[i] - query_starts[i - 1]);
    }
    if (longest < kLong) {
      parallel_for(count(), fn);
      return;
    }
    for (int64_t i = 0; i < count(); ++i) {
      fn(i);
    }
  }
};

/// Rows from `first` on of [N, heads, width].
template <class T>
kernels::HeadsView<T> rows_from(const Tensor& x, int64_t first) {
  return {static_cast<T*>(x.raw()) + first * x.strides()[0], 0, x.strides()[1], x.strides()[0]};
}

/// [N, heads, width] as one sequence [1, heads, N, width], a view without history.
Tensor as_one(const Tensor& x) { return unsqueeze(transpose(x.detach(), 0, 1), 0); }

/// The shapes of the call as if it were one sequence, checked.
AttentionShape check_ragged(const Tensor& q, const Tensor& k, const Tensor& v,
                            std::span<const int64_t> query_starts,
                            std::span<const int64_t> key_starts, const AttentionOptions& options) {
  check(
      q.defined() && k.defined() && v.defined() && q.rank() == 3 && k.rank() == 3 && v.rank() == 3,
      kRagged, "q, k and v must be [rows, heads, width]");
  check(query_starts.size() >= 2 && query_starts.size() == key_starts.size(), kRagged,
        "{} starts of queries and {} of keys; both have one a sequence and the end",
        query_starts.size(), key_starts.size());
  const auto rising = [](std::span<const int64_t> starts, int64_t rows) {
    return starts.front() == 0 && starts.back() == rows &&
           std::is_sorted(starts.begin(), starts.end());
  };
  check(rising(query_starts, q.size(0)) && rising(key_starts, k.size(0)), kRagged,
        "starts must rise from 0 to the number of rows ({} of queries, {} of keys)", q.size(0),
        k.size(0));
  check(!options.keep.defined() && !options.bias.defined() && !options.key_padding.defined(),
        kRagged, "takes no mask, bias or padding; call attention() for each sequence");
  return check_attention(as_one(q), as_one(k), as_one(v), options);
}

template <class T>
kernels::AttentionProblem<T> problem_of(const AttentionShape& all, const Tensor& q, const Tensor& k,
                                        const Tensor& v, const AttentionOptions& options,
                                        const Sequences& sequences, int64_t i) {
  const auto at = static_cast<size_t>(i);
  auto problem = attention_problem<T>(all, as_one(q), as_one(k), as_one(v), {}, options);
  problem.queries = sequences.query_starts[at + 1] - sequences.query_starts[at];
  problem.keys = sequences.key_starts[at + 1] - sequences.key_starts[at];
  problem.q = rows_from<const T>(q, sequences.query_starts[at]);
  problem.k = rows_from<const T>(k, sequences.key_starts[at]);
  problem.v = rows_from<const T>(v, sequences.key_starts[at]);
  problem.dropout = options.dropout;
  problem.random = sequences.random[at];
  return problem;
}

/// What the gradient reads.
struct RaggedSaved {
  AttentionShape shape;
  AttentionOptions options;
  Sequences sequences;
  Saved q, k, v, output, row_max, row_inverse;
};

template <class T>
std::vector<Tensor> ragged_gradient(const RaggedSaved& saved, const Tensor& dy) {
  const DType type = DTypeOf<T>::value;  // f16 and bf16 are kept as they are and widened here
  const DType stored = saved.q.get().dtype();
  const Tensor q = cast(saved.q.get(), type);
  const Tensor k = cast(saved.k.get(), type);
  const Tensor v = cast(saved.v.get(), type);
  const Tensor output = cast(saved.output.get(), type);
  const Tensor dout = with_contiguous_columns(cast(dy, type));
  const Tensor dq = Tensor::empty(q.shape(), type);
  const Tensor dk = Tensor::empty(k.shape(), type);
  const Tensor dv = Tensor::empty(v.shape(), type);
  saved.sequences.for_each([&](int64_t i) {
    const int64_t query = saved.sequences.query_starts[static_cast<size_t>(i)];
    const int64_t key = saved.sequences.key_starts[static_cast<size_t>(i)];
    const int64_t row = query * saved.shape.heads;
    kernels::attention_backward<T>(
        problem_of<T>(saved.shape, q, k, v, saved.options, saved.sequences, i),
        rows_from<const T>(output, query), rows_from<const T>(dout, query),
        {saved.row_max.get().data<T>() + row, saved.row_inverse.get().data<T>() + row},
        {rows_from<T>(dq, query), rows_from<T>(dk, key), rows_from<T>(dv, key), {}});
  });
  return {cast(dq, stored), cast(dk, stored), cast(dv, stored)};
}

/// One random stream for the call, as a batch of equal lengths takes; examples differ in it.
std::vector<RandomKey> random_keys(int64_t count, int64_t heads, double dropout) {
  std::vector<RandomKey> keys(static_cast<size_t>(count));
  if (dropout <= 0) {
    return keys;
  }
  const RandomKey random = next_random_key();
  for (int64_t i = 0; i < count; ++i) {
    const OneSample sample(i);
    keys[static_cast<size_t>(i)] = random;
    keys[static_cast<size_t>(i)].stream += first_of_batch(1) * static_cast<uint64_t>(heads) << 40;
  }
  return keys;
}

}  // namespace

Tensor ragged_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                        std::span<const int64_t> query_starts, std::span<const int64_t> key_starts,
                        const AttentionOptions& wanted) {
  const AttentionShape shape = check_ragged(q, k, v, query_starts, key_starts, wanted);
  RaggedSaved saved;
  saved.shape = shape;
  saved.options = wanted;
  saved.options.dropout = wanted.training ? wanted.dropout : 0.0;
  saved.sequences = {
      {query_starts.begin(), query_starts.end()}, {key_starts.begin(), key_starts.end()}, {}};
  saved.sequences.random = random_keys(saved.sequences.count(), shape.heads, saved.options.dropout);
  const Tensor columns_q = with_contiguous_columns(q);
  const Tensor columns_k = with_contiguous_columns(k);
  const Tensor columns_v = with_contiguous_columns(v);
  const Tensor output = Tensor::empty({q.size(0), shape.heads, shape.value_depth}, q.dtype());
  Tensor row_max;
  Tensor row_inverse;
  dispatch_float(q.dtype(), kRagged, [&](auto zero) {
    using T = decltype(zero);
    using C = kernels::Compute<T>;
    row_max = Tensor::empty({q.size(0) * shape.heads}, DTypeOf<C>::value);
    row_inverse = Tensor::empty({q.size(0) * shape.heads}, DTypeOf<C>::value);
    saved.sequences.for_each([&](int64_t i) {
      const int64_t query = saved.sequences.query_starts[static_cast<size_t>(i)];
      const int64_t row = query * shape.heads;
      kernels::attention_forward<T>(
          problem_of<T>(shape, columns_q, columns_k, columns_v, saved.options, saved.sequences, i),
          rows_from<T>(output, query), {row_max.data<C>() + row, row_inverse.data<C>() + row});
    });
  });
  if (!needs_grad({q, k, v})) {
    return output;
  }
  saved.q = Saved(columns_q);
  saved.k = Saved(columns_k);
  saved.v = Saved(columns_v);
  saved.output = Saved(output);
  saved.row_max = Saved(row_max);
  saved.row_inverse = Saved(row_inverse);
  return record(kRagged, output, {q, k, v}, [saved = std::move(saved)](const Tensor& dy) {
    return saved.q.get().dtype() == DType::f64 ? ragged_gradient<double>(saved, dy)
                                               : ragged_gradient<float>(saved, dy);
  });
}

}  // namespace heed
