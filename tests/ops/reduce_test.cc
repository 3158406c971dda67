#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "heed/ops.h"
#include "heed/runtime.h"
#include "support/error.h"
#include "support/op_case.h"

namespace heed::test {
namespace {

/// fn(row) over the rows of a matrix [rows, n], rows of results joined.
template <class Fn>
std::vector<double> by_rows(const Plain& x, Fn&& fn) {
  const auto n = static_cast<size_t>(x.shape[x.shape.rank() - 1]);
  std::vector<double> y;
  for (size_t at = 0; at < x.values.size(); at += n) {
    const std::vector<double> row = fn(std::vector<double>(
        x.values.begin() + static_cast<long>(at), x.values.begin() + static_cast<long>(at + n)));
    y.insert(y.end(), row.begin(), row.end());
  }
  return y;
}

std::vector<Shape> three_rows(int64_t n) { return {{3, n}}; }

double rounding_of_sum(int64_t n, DType type) {
  return reduction(3.0 * static_cast<double>(n), static_cast<double>(n), type);
}

std::vector<double> softmax_of(std::vector<double> row) {
  const double most = *std::max_element(row.begin(), row.end());
  double sum = 0.0;
  for (double& value : row) {
    value = std::exp(value - most);
    sum += value;
  }
  for (double& value : row) {
    value /= sum;
  }
  return row;
}

TEST(Reduce, SumsAndMeans) {
  const auto total = [](const std::vector<double>& row) {
    return std::vector{std::accumulate(row.begin(), row.end(), 0.0)};
  };
  check_op({.name = "sum",
            .op = [](const auto& in) { return sum(in[0]); },
            .reference = [&](const auto& in) { return total(in[0].values); },
            .rounding = rounding_of_sum});
  check_op({.name = "sum over the last axis",
            .op = [](const auto& in) { return sum(in[0], -1); },
            .reference = [&](const auto& in) { return by_rows(in[0], total); },
            .shapes = three_rows,
            .shortest = 1,
            .rounding = rounding_of_sum});
  check_op({.name = "sum over the first axis",
            .op = [](const auto& in) { return sum(in[0], 0, true); },
            .reference =
                [](const auto& in) {
                  const auto n = static_cast<size_t>(in[0].shape[1]);
                  std::vector<double> y(n);
                  for (size_t i = 0; i < in[0].values.size(); ++i) {
                    y[i % n] += in[0].values[i];
                  }
                  return y;
                },
            .shapes =
                [](int64_t n) {
                  return std::vector<Shape>{{150, n}};
                },
            .shortest = 1,
            .rounding = [](int64_t, DType type) { return rounding_of_sum(150, type); }});
  check_op({.name = "mean",
            .op = [](const auto& in) { return mean(in[0], 1); },
            .reference =
                [&](const auto& in) {
                  return by_rows(in[0], [&](const auto& row) {
                    return std::vector{total(row)[0] / static_cast<double>(row.size())};
                  });
                },
            .shapes = three_rows,
            .shortest = 1});
  check_gradient([](const auto& in) { return mean(in[0]); }, {random_normal({2, 3}, DType::f64)});
  for (const int axis : {0, 1, 2}) {
    check_gradient([=](const auto& in) { return sum(in[0], axis); },
                   {random_normal({2, 3, 4}, DType::f64)});
    check_gradient([=](const auto& in) { return mean(in[0], axis, true); },
                   {random_normal({2, 3, 4}, DType::f64)});
  }
}

TEST(Reduce, ManySmallTermsDoNotVanish) {
  // 2^26 times 1 plus 2^26: a single f32 accumulator would stop at 2^24.
  const Tensor ones = expand(Tensor::full({1}, 1.0f), {int64_t{1} << 26});
  EXPECT_EQ(sum(ones).item(), std::ldexp(1.0, 26));
}

TEST(Reduce, MaxAndArgmax) {
  check_op({.name = "max",
            .op = [](const auto& in) { return max(in[0], -1); },
            .reference =
                [](const auto& in) {
                  return by_rows(in[0], [](const auto& row) {
                    return std::vector{*std::max_element(row.begin(), row.end())};
                  });
                },
            .shapes = three_rows,
            .shortest = 1});
  const Tensor x = Tensor::from({1.0, 5.0, 5.0, -1.0, -1.0, std::nan("")}, {2, 3});
  EXPECT_EQ(argmax(x, 1).to_doubles(), (std::vector<double>{1, 2}));
  EXPECT_EQ(argmax(x, 1).dtype(), DType::i64);
  EXPECT_TRUE(std::isnan(max(x, 1).to_doubles()[1]));
  EXPECT_EQ(max(x, 0, true).shape(), Shape({1, 3}));
  check_gradient([](const auto& in) { return max(in[0], 1, true); },
                 {random_normal({2, 3, 2}, DType::f64)});
  EXPECT_ERROR(max(Tensor::zeros({2, 0}), 1), "max: axis 1 of shape [2, 0] is empty");
  EXPECT_ERROR(argmax(Tensor::zeros({2, 2}), 2), "argmax: axis 2 out of range for shape [2, 2]");
  EXPECT_ERROR(mean(Tensor::zeros({0})), "mean: shape [0] has no elements");
  EXPECT_ERROR(mean(Tensor::zeros({2, 0}), 1), "mean: axis 1 of shape [2, 0] is empty");
  EXPECT_ERROR(sum(Tensor::zeros({2}, DType::i64)),
               "sum: input [2] of i64: a floating type is wanted");
  EXPECT_EQ(sum(Tensor::zeros({2, 0}), 1).to_doubles(), (std::vector<double>{0, 0}));
  EXPECT_EQ(sum(Tensor::zeros({0, 2}), 0).to_doubles(), (std::vector<double>{0, 0}));
}

TEST(Reduce, SoftmaxAndLogSoftmax) {
  check_op({.name = "softmax",
            .op = [](const auto& in) { return softmax(in[0]); },
            .reference = [](const auto& in) { return by_rows(in[0], softmax_of); },
            .shapes = three_rows,
            .low = -20,
            .high = 20,
            .shortest = 1});
  check_op({.name = "log_softmax",
            .op = [](const auto& in) { return log_softmax(in[0]); },
            .reference =
                [](const auto& in) {
                  return by_rows(in[0], [](const auto& row) {
                    std::vector<double> y = softmax_of(row);
                    for (double& value : y) {
                      value = std::log(value);
                    }
                    return y;
                  });
                },
            .shapes = three_rows,
            .shortest = 1});
}

TEST(Reduce, Norms) {
  const auto parameters = [](int64_t n) { return std::vector<Shape>{{3, n}, {n}, {n}}; };
  check_op({.name = "layer_norm",
            .op = [](const auto& in) { return layer_norm(in[0], in[1], in[2], 1e-2); },
            .reference =
                [](const auto& in) {
                  return by_rows(in[0], [&](auto row) {
                    const auto n = static_cast<double>(row.size());
                    const double centre = std::accumulate(row.begin(), row.end(), 0.0) / n;
                    double variance = 0.0;
                    for (const double value : row) {
                      variance += (value - centre) * (value - centre) / n;
                    }
                    for (size_t i = 0; i < row.size(); ++i) {
                      row[i] = (row[i] - centre) / std::sqrt(variance + 1e-2) * in[1].values[i] +
                               in[2].values[i];
                    }
                    return row;
                  });
                },
            .shapes = parameters,
            .shortest = 1});
  check_op({.name = "rms_norm",
            .op = [](const auto& in) { return rms_norm(in[0], in[1], 1e-3); },
            .reference =
                [](const auto& in) {
                  return by_rows(in[0], [&](auto row) {
                    double squares = 0.0;
                    for (const double value : row) {
                      squares += value * value / static_cast<double>(row.size());
                    }
                    for (size_t i = 0; i < row.size(); ++i) {
                      row[i] = row[i] / std::sqrt(squares + 1e-3) * in[1].values[i];
                    }
                    return row;
                  });
                },
            .shapes =
                [](int64_t n) {
                  return std::vector<Shape>{{3, n}, {n}};
                },
            .shortest = 1});
}

}  // namespace
}  // namespace heed::test
