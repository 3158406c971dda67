#include "heed/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "heed/ops.h"
#include "heed/runtime.h"
#include "ops/attention_grid.h"
#include "support/check.h"

namespace heed {
namespace {

using test::expect_close;
using test::expect_same_bits;
using test::random_normal;
using namespace attention_grid;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Attention, KernelsAgree) {
  for (const auto& [queries, keys, depth, value_depth] :
       {std::tuple{5, 7, 8, 8}, {70, 65, 40, 24}, {1, 130, 64, 64}, {129, 64, 16, 80}}) {
    const Inputs inputs = make_inputs({2, 4, 2, queries, keys, depth, value_depth});
    for (const auto& [name, options] : option_grid(2, 4, queries, keys, DType::f32)) {
      const auto expected = run(inputs, options, AttentionKernel::reference);
      for (const AttentionKernel kernel : {AttentionKernel::flash, AttentionKernel::chunked}) {
        const auto actual = run(inputs, options, kernel);
        for (size_t i = 0; i < expected.size(); ++i) {
          expect_close(actual[i], expected[i], {1e-5, 3e-5},
                       name + ", result " + std::to_string(i) + ", Tq " + std::to_string(queries));
        }
      }
    }
  }
}

TEST(Attention, GradientsOfEveryOption) {
  const Inputs inputs = make_inputs({2, 2, 1, 4, 5, 3, 2}, DType::f64);
  for (const auto& [name, given] : option_grid(2, 2, 4, 5, DType::f64)) {
    for (const AttentionKernel kernel :
         {AttentionKernel::flash, AttentionKernel::reference, AttentionKernel::chunked}) {
      AttentionOptions options = given;
      options.kernel = kernel;
      options.chunk = 3;
      std::vector<Tensor> all{inputs.q, inputs.k, inputs.v};
      if (options.bias.defined()) {
        all.push_back(options.bias);
      }
      test::check_gradient(
          [&](const std::vector<Tensor>& x) {
            manual_seed(11);
            AttentionOptions mine = options;
            mine.bias = x.size() > 3 ? x[3] : Tensor();
            return attention(x[0], x[1], x[2], mine);
          },
          all, name);
    }
  }
}

TEST(Attention, GradientsAcrossTilesAndSplits) {  // 600 queries of one head: split four ways
  const Inputs inputs = make_inputs({1, 2, 1, 600, 150, 8, 8}, DType::f64);
  AttentionOptions options;
  options.position = Causal{-100};
  const auto expected = run(inputs, options, AttentionKernel::reference);
  const auto actual = run(inputs, options, AttentionKernel::flash);
  for (size_t i = 0; i < expected.size(); ++i) {
    expect_close(actual[i], expected[i], test::elementwise(DType::f64));
  }
}

TEST(Attention, OrderOfKeysDoesNotMatter) {
  const Inputs inputs = make_inputs({2, 3, 3, 20, 150, 16, 16});
  AttentionOptions options;
  options.key_padding = random_keep({2, 150}, 3);
  options.bias = random_normal({3, 20, 150}, DType::f32, 4);
  const Tensor before = attention(inputs.q, inputs.k, inputs.v, options);
  std::vector<int64_t> order(150);
  for (int64_t j = 0; j < 150; ++j) {
    order[static_cast<size_t>(j)] = j * 7 % 150;  // 7 and 150 have no common divisor
  }
  const Tensor index = Tensor::from(order, {150});
  const auto shuffled = [&](const Tensor& x, int axis) {
    return transpose(index_rows(contiguous(transpose(x, axis, 0)), index), axis, 0);
  };
  options.key_padding = shuffled(options.key_padding.to(DType::f32), 1).to(DType::boolean);
  options.bias = shuffled(options.bias, 2);
  const Tensor after = attention(inputs.q, shuffled(inputs.k, 2), shuffled(inputs.v, 2), options);
  expect_close(after, before, test::elementwise(DType::f32));
}

TEST(Attention, AConstantAddedToScoresChangesNothing) {
  const Inputs inputs = make_inputs({1, 2, 2, 70, 90, 16, 16});
  AttentionOptions options;
  options.position = Causal{20};
  const Tensor before = attention(inputs.q, inputs.k, inputs.v, options);
  options.bias = Tensor::full({1}, 3.5);
  expect_close(attention(inputs.q, inputs.k, inputs.v, options), before,
               test::elementwise(DType::f32));
}

TEST(Attention, ARowWithoutKeysIsZeroAndHasNoGradient) {
  const Inputs inputs = make_inputs({1, 2, 2, 4, 6, 8, 8});
  AttentionOptions options;
  options.mask = Tensor::full({4, 6}, 1, DType::u8);
  std::fill_n(options.mask.data<uint8_t>() + 6, 6, uint8_t{0});
  for (const AttentionKernel kernel :
       {AttentionKernel::flash, AttentionKernel::reference, AttentionKernel::chunked}) {
    const auto results = run(inputs, options, kernel);
    for (size_t i : {size_t{0}, size_t{1}}) {
      for (const double value : select(results[i], 2, 1).to_doubles()) {
        EXPECT_EQ(value, 0.0);
      }
    }
    EXPECT_NE(select(results[1], 2, 0).to_doubles()[0], 0.0);
  }
  const AttentionSteps steps = attention_steps(inputs.q, inputs.k, inputs.v, options);
  EXPECT_EQ(steps.lse.to_doubles()[1], -std::numeric_limits<double>::infinity());
}

/// `type`: of q, k and v; only the flash kernel's bits are the same in bf16.
void expect_no_leak(DType type, const std::vector<AttentionKernel>& kernels) {
  const Inputs clean = make_inputs({1, 2, 2, 70, 70, 8, 8}, type);
  for (const bool by_position : {true, false}) {
    AttentionOptions options;
    if (by_position) {
      options.position = Causal{};  // key 66 is hidden from the rows before it, and only from those
    } else {
      options.mask = Tensor::full({70, 70}, 1, DType::u8);
      for (int64_t i = 0; i < 66; ++i) {
        options.mask.data<uint8_t>()[i * 70 + 66] = 0;
      }
    }
    Inputs poisoned{clean.q, clean.k.clone(), clean.v.clone()};
    for (Tensor* x : {&poisoned.k, &poisoned.v}) {
      for (int64_t h = 0; h < 2; ++h) {
        slice(slice(slice(*x, 1, h, h + 1), 2, 66, 67), 3, 3, 4)
            .copy_from(Tensor::full({1, 1, 1, 1}, kNan));
      }
    }
    const auto zero_late_rows = [&](const Inputs& inputs, AttentionKernel kernel) {
      options.kernel = kernel;
      Tensor q = inputs.q.clone().set_requires_grad(true);
      Tensor k = inputs.k.clone().set_requires_grad(true);
      Tensor v = inputs.v.clone().set_requires_grad(true);
      const Tensor y = attention(q, k, v, options);
      backward(slice(y, 2, 0, 66), Tensor::full({1, 2, 66, 8}, 1.0, type));
      return std::vector<Tensor>{slice(y, 2, 0, 66), slice(q.grad(), 2, 0, 66)};
    };
    for (const AttentionKernel kernel : kernels) {
      const auto expected = zero_late_rows(clean, AttentionKernel::flash);
      const auto actual = zero_late_rows(poisoned, kernel);
      expect_same_bits(actual[0], expected[0], "output");
      expect_same_bits(actual[1], expected[1], "gradient of q");
      options.kernel = kernel;
      const Tensor y = attention(poisoned.q, poisoned.k, poisoned.v, options);
      EXPECT_TRUE(std::isnan(select(y, 2, 69).to_doubles()[0])) << "a visible NaN must show";
    }
  }
}

TEST(Attention, NanInHiddenKeysDoesNotLeak) {
  expect_no_leak(DType::f32,
                 {AttentionKernel::flash, AttentionKernel::reference, AttentionKernel::chunked});
  expect_no_leak(DType::bf16, {AttentionKernel::flash});
}

TEST(Attention, SameBitsForAnyThreadCount) {
  for (const DType type : {DType::f32, DType::bf16}) {
    const Inputs inputs = make_inputs({2, 2, 1, 600, 600, 16, 16}, type);
    AttentionOptions options;
    options.position = Causal{};
    options.bias = random_normal({2, 600, 600}, type, 4);
    options.dropout = 0.1;
    options.training = true;
    test::expect_same_for_any_thread_count(
        [&] { return run(inputs, options, AttentionKernel::flash); });
  }
}

TEST(Attention, PaddingChangesNoBit) {
  const Inputs alone = make_inputs({1, 2, 1, 37, 37, 16, 16});
  const auto padded = [](const Tensor& x) {
    const Tensor rest = random_normal({1, x.size(1), 100, x.size(3)}, DType::f32, 99);
    const Tensor row = concat({x, rest}, 2);
    return concat({random_normal(row.shape(), DType::f32, 5), row}, 0);
  };
  for (const bool causal : {false, true}) {
    AttentionOptions options;
    if (causal) {
      options.position = Causal{};
    }
    const Tensor expected = attention(alone.q, alone.k, alone.v, options);
    options.key_padding = Tensor::full({2, 137}, 1, DType::u8);
    std::fill_n(options.key_padding.data<uint8_t>() + 137 + 37, 100, uint8_t{0});
    const Tensor batch = attention(padded(alone.q), padded(alone.k), padded(alone.v), options);
    expect_same_bits(slice(slice(batch, 0, 1, 2), 2, 0, 37), expected);
  }
}

TEST(Attention, OneQueryAgainstACacheHasTheBitsOfTheWhole) {
  for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
    const Inputs all = make_inputs({2, 4, 2, 200, 200, 24, 40}, type);
    AttentionOptions options;
    options.position = Causal{};
    const Tensor whole = attention(all.q, all.k, all.v, options);
    for (const int64_t row : {0, 5, 63, 64, 130, 199}) {
      for (const int64_t rows : {1, 2, 3}) {
        const int64_t begin = std::max<int64_t>(0, row + 1 - rows);
        options.position = Causal{begin};
        const Tensor one = attention(slice(all.q, 2, begin, row + 1), slice(all.k, 2, 0, row + 1),
                                     slice(all.v, 2, 0, row + 1), options);
        expect_same_bits(one, slice(whole, 2, begin, row + 1),
                         "row " + std::to_string(row) + " of " + std::string(name_of(type)));
      }
    }
  }
}

TEST(Attention, ReadsViewsInPlace) {
  const Tensor fused = random_normal({2, 70, 3 * 4 * 16}, DType::f32, 1);  // [B, T, q|k|v]
  const auto part = [&](int64_t n) {
    return transpose(reshape(slice(fused, 2, n * 64, (n + 1) * 64), {2, 70, 4, 16}), 1, 2);
  };
  AttentionOptions options;
  options.position = Causal{};
  const Tensor from_views = attention(part(0), part(1), part(2), options);
  expect_same_bits(from_views, attention(contiguous(part(0)), contiguous(part(1)),
                                         contiguous(part(2)), options));
  EXPECT_TRUE(transpose(from_views, 1, 2).is_contiguous()) << "merging heads must be free";
}

/// q, k and v that are parts of one projection have gradients that are parts of one tensor; two key
/// heads for four of queries, and a part that is used twice.
TEST(Attention, GradientsOfAFusedProjectionAreThoseOfItsParts) {
  constexpr int64_t kBatch = 2, kLength = 70, kHeads = 4, kKeyHeads = 2, kDepth = 8;
  const std::vector<int64_t> sizes{kHeads * kDepth, kKeyHeads * kDepth, kKeyHeads * kDepth};
  const Tensor rows =
      random_normal({kBatch * kLength, (kHeads + 2 * kKeyHeads) * kDepth}, DType::f32, 5);
  const auto by_head = [](const Tensor& x) {
    return transpose(reshape(x, {kBatch, kLength, x.size(1) / kDepth, kDepth}), 1, 2);
  };
  AttentionOptions options;
  options.position = Causal{};
  const auto run = [&](const std::vector<Tensor>& parts) {
    const Tensor y = attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]), options);
    backward(y, random_normal(y.shape(), DType::f32, 6));
  };
  const Tensor fused = rows.clone().set_requires_grad(true);
  run(split(fused, sizes, 1));
  std::vector<Tensor> alone;
  for (const Tensor& part : split(rows, sizes, 1)) {
    alone.push_back(part.clone().set_requires_grad(true));
  }
  run(alone);
  expect_same_bits(fused.grad(), concat({alone[0].grad(), alone[1].grad(), alone[2].grad()}, 1));

  const Tensor twice = rows.clone().set_requires_grad(true);  // a part with another use
  const std::vector<Tensor> parts = split(twice, sizes, 1);
  const Tensor y = attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]), options);
  const Tensor seed = random_normal(y.shape(), DType::f32, 6);
  backward(add(sum(mul(y, seed)), sum(parts[1])));
  expect_same_bits(slice(twice.grad(), 1, sizes[0], sizes[0] + sizes[1]).contiguous(),
                   add(alone[1].grad(), 1.0));
}

TEST(Attention, HalfTypesFollowF32) {
  for (const DType type : {DType::f16, DType::bf16}) {
    const Inputs inputs = make_inputs({1, 4, 2, 70, 90, 40, 24}, type);
    AttentionOptions options;
    options.position = Causal{20};
    const Tensor y = attention(inputs.q, inputs.k, inputs.v, options);
    EXPECT_EQ(y.dtype(), type);
    const Tensor expected = attention(inputs.q.to(DType::f32), inputs.k.to(DType::f32),
                                      inputs.v.to(DType::f32), options);
    if (type == DType::f16) {
      expect_close(y, expected, {test::elementwise(type).relative, 1e-5});
    } else {  // the weights may be rounded to bf16 too
      test::expect_norm_close(y.to(DType::f32), expected, 0x1p-8);
    }
    Tensor q = inputs.q.clone().set_requires_grad(true);
    backward(attention(q, inputs.k, inputs.v, options), Tensor::full(y.shape(), 1, type));
    EXPECT_EQ(q.grad().dtype(), type);
  }
}

TEST(Attention, DropoutKeepsTheExpectedShare) {
  const Tensor q = Tensor::zeros({1, 1, 200, 4});
  const Tensor v = Tensor::full({1, 1, 200, 1}, 1.0);
  AttentionOptions options;
  options.dropout = 0.25;
  options.training = true;
  manual_seed(3);
  const Tensor first = attention(q, q, v, options);
  double total = 0;
  for (const double value : first.to_doubles()) {
    total += value;
  }
  EXPECT_NEAR(total / 200, 1.0, 0.02);  // 40,000 draws: 7 standard deviations
  EXPECT_NE(first.to_doubles(), attention(q, q, v, options).to_doubles()) << "the next stream";
  options.training = false;
  expect_close(attention(q, q, v, options), Tensor::full({1, 1, 200, 1}, 1.0),
               test::elementwise(DType::f32));
}

TEST(Attention, EmptyLengths) {
  const Inputs no_keys = make_inputs({1, 2, 2, 3, 0, 4, 5});
  for (const AttentionKernel kernel : {AttentionKernel::flash, AttentionKernel::chunked}) {
    AttentionOptions options;
    options.kernel = kernel;
    for (const double value : attention(no_keys.q, no_keys.k, no_keys.v, options).to_doubles()) {
      EXPECT_EQ(value, 0.0);
    }
    const Inputs no_queries = make_inputs({1, 2, 2, 0, 3, 4, 5});
    EXPECT_EQ(attention(no_queries.q, no_queries.k, no_queries.v, options).shape(),
              Shape({1, 2, 0, 5}));
  }
}

TEST(Attention, RefusesWhatMakesNoSense) {
  const Inputs x = make_inputs({2, 4, 2, 5, 6, 8, 8});
  const auto refuses = [&](const Inputs& given, const AttentionOptions& options,
                           const std::string& part) {
    try {
      attention(given.q, given.k, given.v, options);
      FAIL() << "accepted: " << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refuses({x.q, x.k, Tensor()}, {}, "must be given");
  refuses({select(x.q, 0, 0), x.k, x.v}, {}, "[4, 5, 8]");
  refuses({x.q, random_normal({2, 3, 6, 8}), random_normal({2, 3, 6, 8})}, {}, "no multiple");
  refuses({x.q, random_normal({2, 2, 6, 7}), x.v}, {}, "last axis");
  refuses({x.q, x.k, random_normal({2, 2, 7, 8})}, {}, "heads and length");
  refuses({x.q, x.k.to(DType::f64), x.v}, {}, "one floating type");
  const auto with = [](auto&& set) {
    AttentionOptions options;
    set(options);
    return options;
  };
  refuses(x, with([](auto& o) { o.mask = Tensor::full({5, 7}, 1, DType::u8); }), "[5, 7]");
  refuses(x, with([](auto& o) { o.mask = Tensor::full({5, 6}, 1, DType::i64); }), "bool or u8");
  refuses(x, with([](auto& o) { o.bias = Tensor::full({3, 5, 6}, 1); }), "[3, 5, 6]");
  refuses(x, with([](auto& o) { o.key_padding = Tensor::full({2, 5}, 1, DType::u8); }), "[2, 5]");
  refuses(x, with([](auto& o) { o.dropout = 1.0; }), "dropout");
  refuses(x, with([](auto& o) { o.softcap = -1; }), "softcap");
  refuses(x, with([](auto& o) { o.scale = kNan; }), "scale");
  refuses(x, with([](auto& o) { o.chunk = 0; }), "chunk");
  refuses(x, with([](auto& o) { o.position = Window{-2, 0, 0, 0}; }), "window");
  refuses(x, with([](auto& o) { o.position = Window{1, 0, 0, -1}; }), "prefix");
}

}  // namespace
}  // namespace heed
