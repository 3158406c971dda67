#include "autograd/node.h"
#include "base/check.h"
#include "base/parallel.h"
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
        "{} starts of queries and {} of keys; both need one per sequence and the end",
        query_starts.size(), key_starts.size());
  const auto rising = [](std::span<const int64_t> starts, int64_t rows) {
    return starts.front() == 0 && starts.back() == rows &&
           std::is_sorted(starts.begin(), starts.end());
  };
  check(rising(query_starts, q.size(0)) && rising(key_starts, k.size(0)), kRagged,
        "starts must rise from 0 to the number of rows ({} of queries, {} of keys)", q.size(0),
        k.size(0));
  check(!options.mask.defined() && !options.bias.defined() && !options.key_padding.defined(),
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

/// A call without its rows.
struct RaggedCall {
  AttentionShape shape;
  AttentionOptions options;
  Sequences sequences;
};

FlashResult ragged_forward(const RaggedCall& call, const Tensor& q, const Tensor& k,
                           const Tensor& v) {
  const int64_t rows = q.size(0);
  const int64_t heads = call.shape.heads;
  return dispatch_float(q.dtype(), kRagged, [&](auto zero) {
    using T = decltype(zero);
    using C = kernels::Compute<T>;
    FlashResult result{Tensor::empty({rows, heads, call.shape.value_depth}, q.dtype()),
                       Tensor::empty({rows * heads}, DTypeOf<C>::value),
                       Tensor::empty({rows * heads}, DTypeOf<C>::value)};
    call.sequences.for_each([&](int64_t i) {
      const int64_t query = call.sequences.query_starts[static_cast<size_t>(i)];
      const int64_t row = query * heads;
      kernels::attention_forward<T>(
          problem_of<T>(call.shape, q, k, v, call.options, call.sequences, i),
          rows_from<T>(result.output, query),
          {result.row_max.data<C>() + row, result.row_inverse.data<C>() + row});
    });
    return result;
  });
}

template <class T>
std::vector<Tensor> ragged_gradient(const RaggedCall& call, const FlashSaved& saved,
                                    const Tensor& dy) {
  using C = kernels::Compute<T>;
  const DType type = DTypeOf<T>::value;
  const DType stored = saved.q.get().dtype();
  const FlashOperands in(saved, dy, type);
  const Tensor dq = Tensor::empty(in.q.shape(), type);
  const Tensor dk = Tensor::empty(in.k.shape(), type);
  const Tensor dv = Tensor::empty(in.v.shape(), type);
  call.sequences.for_each([&](int64_t i) {
    const int64_t query = call.sequences.query_starts[static_cast<size_t>(i)];
    const int64_t key = call.sequences.key_starts[static_cast<size_t>(i)];
    const int64_t row = query * call.shape.heads;
    kernels::attention_backward<T>(
        problem_of<T>(call.shape, in.q, in.k, in.v, call.options, call.sequences, i),
        rows_from<const T>(in.output, query), rows_from<const T>(in.dout, query),
        {saved.row_max.get().data<C>() + row, saved.row_inverse.get().data<C>() + row},
        {rows_from<T>(dq, query), rows_from<T>(dk, key), rows_from<T>(dv, key), {}});
  });
  return {cast(dq, stored), cast(dk, stored), cast(dv, stored)};
}

/// One random stream for the call, as a batch of equal lengths takes; examples differ in it.
std::vector<RandomKey> random_keys(int64_t count, int64_t heads, double dropout,
                                   int64_t first_example) {
  std::vector<RandomKey> keys(static_cast<size_t>(count));
  if (dropout <= 0) {
    return keys;
  }
  const RandomKey random = next_random_key();
  for (int64_t i = 0; i < count; ++i) {
    keys[static_cast<size_t>(i)] = random;
    keys[static_cast<size_t>(i)].stream += static_cast<uint64_t>((first_example + i) * heads) << 40;
  }
  return keys;
}

}  // namespace

Tensor ragged_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                        std::span<const int64_t> query_starts, std::span<const int64_t> key_starts,
                        const AttentionOptions& wanted) {
  RaggedCall call{
      check_ragged(q, k, v, query_starts, key_starts, wanted),
      wanted,
      {{query_starts.begin(), query_starts.end()}, {key_starts.begin(), key_starts.end()}, {}}};
  call.options.dropout = wanted.training ? wanted.dropout : 0.0;
  call.sequences.random = random_keys(call.sequences.count(), call.shape.heads,
                                      call.options.dropout, wanted.first_example);
  const Tensor columns_q = with_contiguous_columns(q);
  const Tensor columns_k = with_contiguous_columns(k);
  const Tensor columns_v = with_contiguous_columns(v);
  const FlashResult result = ragged_forward(call, columns_q, columns_k, columns_v);
  if (!needs_grad({q, k, v})) {
    return result.output;
  }
  return record(kRagged, result.output, {q, k, v},
                [call = std::move(call),
                 saved = FlashSaved(columns_q, columns_k, columns_v, result)](const Tensor& dy) {
                  return in_gradient_type(saved.q.get().dtype(), [&](auto zero) {
                    return ragged_gradient<decltype(zero)>(call, saved, dy);
                  });
                });
}

}  // namespace heed
