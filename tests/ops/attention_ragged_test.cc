#include <gtest/gtest.h>

#include "heed/attention.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "support/check.h"
#include "support/error.h"

namespace heed {
namespace {

using test::expect_same_bits;
using test::random_normal;

struct Ragged {
  std::vector<int64_t> queries;
  std::vector<int64_t> keys;
  int64_t heads = 4;
  int64_t num_kv_heads = 2;
  int64_t depth = 24;
  int64_t value_depth = 40;
};

std::vector<int64_t> starts_of(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> starts{0};
  for (const int64_t length : lengths) {
    starts.push_back(starts.back() + length);
  }
  return starts;
}

struct Rows {
  Tensor q, k, v, dy;
};
Rows rows_of(const Ragged& work, DType type) {
  const int64_t n = starts_of(work.queries).back();
  const int64_t m = starts_of(work.keys).back();
  return {random_normal({n, work.heads, work.depth}, type, 1).set_requires_grad(true),
          random_normal({m, work.num_kv_heads, work.depth}, type, 2).set_requires_grad(true),
          random_normal({m, work.num_kv_heads, work.value_depth}, type, 3).set_requires_grad(true),
          random_normal({n, work.heads, work.value_depth}, type, 4)};
}

/// Output and gradients of all sequences together.
std::vector<Tensor> together(const Ragged& work, DType type, const AttentionOptions& options) {
  const Rows rows = rows_of(work, type);
  manual_seed(5);
  const Tensor y = ragged_attention(rows.q, rows.k, rows.v, starts_of(work.queries),
                                    starts_of(work.keys), options);
  backward(y, rows.dy);
  return {y, rows.q.grad(), rows.k.grad(), rows.v.grad()};
}

/// The same by attention() for one sequence after the other.
std::vector<Tensor> one_by_one(const Ragged& work, DType type, AttentionOptions options) {
  const Rows rows = rows_of(work, type);
  const auto heads_first = [](const Tensor& x) { return unsqueeze(transpose(x, 0, 1), 0); };
  const std::vector<Tensor> qs = split(rows.q, work.queries, 0);
  const std::vector<Tensor> ks = split(rows.k, work.keys, 0);
  const std::vector<Tensor> vs = split(rows.v, work.keys, 0);
  std::vector<Tensor> parts;
  for (size_t i = 0; i < qs.size(); ++i) {
    manual_seed(5);
    options.first_example = static_cast<int64_t>(i);
    const Tensor y = attention(heads_first(qs[i]), heads_first(ks[i]), heads_first(vs[i]), options);
    parts.push_back(transpose(squeeze(y, 0), 0, 1));
  }
  const Tensor y = concat(parts, 0);
  backward(y, rows.dy);
  return {y, rows.q.grad(), rows.k.grad(), rows.v.grad()};
}

void expect_same(const Ragged& work, DType type, const AttentionOptions& options) {
  const std::vector<Tensor> wanted = one_by_one(work, type, options);
  const std::vector<Tensor> got = together(work, type, options);
  for (size_t i = 0; i < wanted.size(); ++i) {
    expect_same_bits(got[i], wanted[i]);
  }
}

TEST(RaggedAttention, EachSequenceHasTheBitsOfAttentionAlone) {
  const Ragged self{{3, 1, 70, 64, 9}, {3, 1, 70, 64, 9}};
  const Ragged cross{{3, 1, 70}, {65, 2, 12}};
  const Ragged with_a_long_one{{600, 7}, {600, 7}};
  for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
    AttentionOptions causal;
    causal.position = Causal{};
    AttentionOptions window;
    window.position = Window{4, 0};
    window.softcap = 3.0;
    for (const AttentionOptions& options : {AttentionOptions{}, causal, window}) {
      expect_same(self, type, options);
      expect_same(with_a_long_one, type, options);
    }
    expect_same(cross, type, {});
  }
}

TEST(RaggedAttention, DropsWhatEachExampleWouldDropAlone) {
  AttentionOptions options;
  options.dropout = 0.3;
  options.training = true;
  expect_same({{30, 5, 70}, {30, 5, 70}}, DType::f32, options);
}

TEST(RaggedAttention, SameBitsForAnyThreadCount) {
  const Ragged work{{30, 5, 70, 1, 44}, {20, 9, 70, 3, 44}};
  test::expect_same_for_any_thread_count([&] { return together(work, DType::f32, {}); });
}

TEST(RaggedAttention, RefusesWhatMakesNoSense) {
  const Rows rows = rows_of({{3, 4}, {3, 4}}, DType::f32);
  const auto call = [&](const std::vector<int64_t>& queries, const std::vector<int64_t>& keys,
                        const AttentionOptions& options) {
    return ragged_attention(rows.q, rows.k, rows.v, queries, keys, options);
  };
  EXPECT_ERROR(call({0, 3}, {0, 3, 7}, {}), "ragged_attention: 2 starts of queries and 3 of keys");
  EXPECT_ERROR(call({0, 3, 6}, {0, 3, 7}, {}),
               "ragged_attention: starts must rise from 0 to the number of rows");
  EXPECT_ERROR(call({0, 5, 3, 7}, {0, 3, 5, 7}, {}),
               "ragged_attention: starts must rise from 0 to the number of rows");
  EXPECT_ERROR(call({}, {}, {}), "ragged_attention: 0 starts of queries and 0 of keys");
  AttentionOptions masked;
  masked.mask = Tensor::full({1, 1, 7, 7}, 1, DType::u8);
  EXPECT_ERROR(
      call({0, 3, 7}, {0, 3, 7}, masked),
      "ragged_attention: takes no mask, bias or padding; call attention() for each sequence");
  EXPECT_ERROR(ragged_attention(rows.q, rows.k, Tensor(), std::vector<int64_t>{0, 7},
                                std::vector<int64_t>{0, 7}),
               "ragged_attention: q, k and v must be [rows, heads, width]");
}

}  // namespace
}  // namespace heed
