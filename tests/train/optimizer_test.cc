#include <gtest/gtest.h>

#include <cmath>

#include "heed/io.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "heed/tensor.h"
#include "heed/train.h"
#include "support/check.h"
#include "support/data.h"
#include "support/error.h"

namespace heed::test {
namespace {

/// Weights of a golden run by name, as leaves of a type.
std::map<std::string, Tensor> weights_of(const TensorMap& file, DType type) {
  std::map<std::string, Tensor> weights;
  for (const auto& [name, tensor] : file) {
    if (name.starts_with("initial.")) {
      weights[name.substr(8)] = tensor.to(type).clone().set_requires_grad(true);
    }
  }
  return weights;
}

std::vector<NamedTensor> named(const std::map<std::string, Tensor>& weights) {
  return {weights.begin(), weights.end()};
}

/// Ten updates from a golden file; compares each loss and every weight at the end.
void replay(
    const std::string& name, DType type, const OptimizerOptions& options,
    const std::function<Tensor(std::map<std::string, Tensor>&, const TensorMap&)>& loss_of) {
  const TensorMap file = load_safetensors(golden("ops/" + name + ".safetensors"));
  std::map<std::string, Tensor> weights = weights_of(file, type);
  Optimizer optimizer(named(weights), options);
  std::vector<double> losses;
  for (int step = 0; step < 10; ++step) {
    const Tensor loss = loss_of(weights, file);
    losses.push_back(loss.item());
    optimizer.zero_grad();
    backward(loss);
    optimizer.step();
  }
  // In f64 the run is the reference's own, stored as f32; in f32 rounding grows over ten updates.
  const double share = type == DType::f64 ? 1e-6 : kModel;
  expect_norm_close(Tensor::from(losses, {10}), file.at("losses"), share, "losses");
  for (const auto& [weight, tensor] : weights) {
    expect_norm_close(tensor, file.at("final." + weight), share, weight);
  }
}

TEST(Optimizer, TrainsAnMlpAsPyTorchDoes) {
  for (const DType type : {DType::f64, DType::f32}) {
    replay("mlp_adamw", type,
           {.kind = OptimizerKind::adamw, .lr = 0.01, .beta2 = 0.95, .weight_decay = 0.1},
           [type](auto& w, const TensorMap& file) {
             Tensor x = file.at("inputs").to(type);
             x = gelu(linear(x, w["linear1.weight"], w["linear1.bias"]));
             x = gelu(linear(x, w["linear2.weight"], w["linear2.bias"]));
             return mse(linear(x, w["linear3.weight"], w["linear3.bias"]),
                        file.at("targets").to(type));
           });
  }
}

TEST(Optimizer, TrainsAnLstmAsPyTorchDoes) {
  for (const DType type : {DType::f64, DType::f32}) {
    replay(
        "lstm_adam", type, {.kind = OptimizerKind::adam, .lr = 0.02},
        [type](auto& w, const TensorMap& file) {
          const Tensor x = file.at("inputs").to(type);  // [batch, time, in]
          LstmState state{Tensor::zeros({x.size(0), 8}, type), Tensor::zeros({x.size(0), 8}, type)};
          std::vector<Tensor> outputs;
          for (int64_t t = 0; t < x.size(1); ++t) {
            state = lstm_cell(select(x, 1, t), state, w["lstm.weight_ih_l0"],
                              w["lstm.weight_hh_l0"], w["lstm.bias_ih_l0"], w["lstm.bias_hh_l0"]);
            outputs.push_back(state.h);
          }
          const Tensor logits = linear(stack(outputs, 1), w["linear.weight"], w["linear.bias"]);
          return cross_entropy(logits, file.at("targets"));
        });
  }
}

/// One parameter with a gradient given.
Tensor parameter(const Tensor& value, const Tensor& gradient) {
  Tensor leaf = value.clone().set_requires_grad(true);
  leaf.set_grad(gradient);
  return leaf;
}

TEST(Optimizer, SgdFollowsItsFormula) {
  const Tensor value = random_normal({19}, DType::f64, 1);
  const Tensor gradient = random_normal({19}, DType::f64, 2);
  for (const bool nesterov : {false, true}) {
    const Tensor leaf = parameter(value, gradient);
    Optimizer optimizer({{"w", leaf}}, {.kind = OptimizerKind::sgd,
                                        .lr = 0.1,
                                        .weight_decay = 0.01,
                                        .momentum = 0.9,
                                        .nesterov = nesterov});
    std::vector<double> w = value.to_doubles();
    const std::vector<double> g = gradient.to_doubles();
    std::vector<double> speed(w.size());
    for (int step = 0; step < 3; ++step) {
      optimizer.step(0.5);
      for (size_t i = 0; i < w.size(); ++i) {
        const double total = 0.5 * g[i] + 0.01 * w[i];
        speed[i] = 0.9 * speed[i] + total;
        w[i] -= 0.1 * (nesterov ? total + 0.9 * speed[i] : speed[i]);
      }
    }
    expect_close(leaf, w, elementwise(DType::f64));
  }
}

TEST(Optimizer, DecaysMatricesOnly) {
  const Tensor matrix = parameter(Tensor::full({3, 3}, 1.0), Tensor::zeros({3, 3}));
  const Tensor vector = parameter(Tensor::full({3}, 1.0), Tensor::zeros({3}));
  Optimizer optimizer(decay_groups({{"m", matrix}, {"v", vector}}, 0.5), {.lr = 0.1});
  optimizer.step();
  expect_close(matrix, std::vector<double>(9, 0.95), elementwise(DType::f32));
  expect_close(vector, std::vector<double>(3, 1.0), elementwise(DType::f32));
}

TEST(Optimizer, KeepsMasterWeightsOfShortTypes) {
  for (const DType type : {DType::f16, DType::bf16}) {
    const Tensor leaf = parameter(Tensor::full({70}, 1.0, type), Tensor::full({70}, 1.0, type));
    Optimizer optimizer({{"w", leaf}}, {.kind = OptimizerKind::sgd, .lr = 1e-5});
    for (int step = 0; step < 1000; ++step) {
      optimizer.step();  // each update is far below the type's resolution at 1
    }
    expect_close(optimizer.state().at("master.w"), std::vector<double>(70, 0.99), {1e-4, 0});
    expect_close(leaf, std::vector<double>(70, 0.99), elementwise(type));
    EXPECT_EQ(leaf.dtype(), type);
  }
}

TEST(Optimizer, SkipsParametersWithoutGradient) {
  const Tensor with = parameter(Tensor::full({2}, 1.0), Tensor::full({2}, 1.0));
  Tensor without = Tensor::full({2}, 1.0).set_requires_grad(true);
  Optimizer optimizer({{"a", with}, {"b", without}}, {.weight_decay = 0.1});
  optimizer.step();
  EXPECT_EQ(without.to_doubles(), (std::vector<double>{1, 1}));
  EXPECT_NE(with.to_doubles(), (std::vector<double>{1, 1}));
  EXPECT_FALSE(optimizer.state().contains("exp_avg.b"));
  EXPECT_EQ(optimizer.state().at("step.b").item(), 0.0);
}

TEST(Optimizer, ContinuesBitForBitFromItsState) {
  const auto gradient = [](int step) {
    return random_normal({2, 40}, DType::bf16, 100 + static_cast<uint64_t>(step));
  };
  const Tensor value = random_normal({2, 40}, DType::bf16);
  const Tensor whole = parameter(value, gradient(0));
  Optimizer first({{"w", whole}}, {});
  std::map<std::string, Tensor, std::less<>> saved;
  Tensor saved_weights;
  for (int step = 0; step < 6; ++step) {
    if (step == 3) {
      for (const auto& [name, tensor] : first.state()) {
        saved.emplace(name, tensor.clone());
      }
      saved_weights = whole.clone();
    }
    Tensor leaf = whole;
    leaf.set_grad(gradient(step));
    first.step();
  }
  Tensor resumed = parameter(saved_weights, gradient(3));
  Optimizer second({{"w", resumed}}, {});
  second.load_state(saved);
  EXPECT_EQ(second.steps(), 3);
  for (int step = 3; step < 6; ++step) {
    resumed.set_grad(gradient(step));
    second.step();
  }
  expect_same_bits(resumed, whole);
  expect_same_bits(second.state().at("exp_avg_sq.w"), first.state().at("exp_avg_sq.w"));
}

TEST(Optimizer, GivesTheSameBitsForAnyThreadCount) {
  expect_same_for_any_thread_count([] {
    const Tensor a = parameter(random_normal({300, 301}), random_normal({300, 301}, DType::f32, 2));
    const Tensor b = parameter(random_normal({7}), random_normal({7}, DType::f32, 3));
    Optimizer optimizer({{"a", a}, {"b", b}}, {.weight_decay = 0.1});
    const double norm = optimizer.grad_norm();
    optimizer.step(1.0 / norm);
    return std::vector{a.detach(), b.detach(), Tensor::scalar(norm, DType::f64)};
  });
}

TEST(ClipGradNorm, ScalesToTheNormAndLeavesNaNAlone) {
  const Tensor a = parameter(Tensor::zeros({2}), Tensor::from({3.0f, 0.0f}, {2}));
  const Tensor b = parameter(Tensor::zeros({1}), Tensor::from({4.0f}, {1}));
  EXPECT_DOUBLE_EQ(clip_grad_norm({a, b}, 10.0), 5.0);
  expect_close(b.grad(), std::vector<double>{4.0}, elementwise(DType::f32));
  EXPECT_DOUBLE_EQ(clip_grad_norm({a, b}, 1.0), 5.0);
  expect_close(a.grad(), std::vector<double>{0.6, 0.0}, elementwise(DType::f32));
  expect_close(b.grad(), std::vector<double>{0.8}, elementwise(DType::f32));
  Tensor bad = b;
  bad.set_grad(Tensor::full({1}, NAN));
  EXPECT_TRUE(std::isnan(clip_grad_norm({a, bad}, 0.1)));
  expect_close(a.grad(), std::vector<double>{0.6, 0.0}, elementwise(DType::f32));
  EXPECT_ERROR(clip_grad_norm({a}, 0.0), "clip_grad_norm: norm 0 is not above 0");
}

TEST(Optimizer, BadInput) {
  const Tensor leaf = parameter(Tensor::zeros({2}), Tensor::zeros({2}));
  EXPECT_ERROR(Optimizer({{"a", leaf}, {"a", leaf}}, {}),
               "optimizer: parameter 'a' is there twice");
  EXPECT_ERROR(Optimizer({{"a", Tensor()}}, {}),
               "optimizer: parameter 'a' must be a contiguous floating tensor");
  EXPECT_ERROR(Optimizer({{"a", Tensor::zeros({2}, DType::i64)}}, {}),
               "optimizer: parameter 'a' must be a contiguous floating tensor");
  EXPECT_ERROR(Optimizer({{"a", leaf}}, {.lr = NAN}), "optimizer: learning rate nan is below 0");
  EXPECT_ERROR(Optimizer({{"a", leaf}}, {.beta1 = 1.0}),
               "optimizer: betas 1 and 0.999 are not in [0, 1)");
  EXPECT_ERROR(Optimizer({{"a", leaf}}, {.weight_decay = -1}),
               "optimizer: weight decay -1 is below 0");
  Optimizer optimizer({{"a", leaf}}, {});
  EXPECT_ERROR(optimizer.set_lr(-1), "optimizer: learning rate -1 is below 0");
  EXPECT_ERROR(optimizer.load_state({}), "optimizer: the state has no 'step'");
  const Tensor one = Tensor::from<int64_t>({1}, {});
  EXPECT_ERROR(optimizer.load_state({{"step", one}, {"exp_avg.b", Tensor::zeros({2})}}),
               "optimizer: 1 of 2 tensors of the state belong to no parameter here");
  EXPECT_ERROR(optimizer.load_state({{"step", one}, {"exp_avg.a", Tensor::zeros({3})}}),
               "optimizer: state does not fit the parameters: exp_avg.a [3]");
}

TEST(Schedule, WarmsUpAndThenFollowsItsKind) {
  Schedule schedule{ScheduleKind::cosine, 2.0, 10, 110, 0.1};
  EXPECT_DOUBLE_EQ(schedule.lr(1), 0.2);
  EXPECT_DOUBLE_EQ(schedule.lr(10), 2.0);
  EXPECT_DOUBLE_EQ(schedule.lr(60), 2.0 * 0.55);
  EXPECT_NEAR(schedule.lr(110), 0.2, 1e-12);
  EXPECT_NEAR(schedule.lr(500), 0.2, 1e-12);
  schedule.kind = ScheduleKind::linear;
  EXPECT_DOUBLE_EQ(schedule.lr(35), 2.0 * (0.1 + 0.9 * 0.75));
  schedule.kind = ScheduleKind::inverse_sqrt;
  EXPECT_DOUBLE_EQ(schedule.lr(40), 1.0);
  schedule.kind = ScheduleKind::constant;
  EXPECT_DOUBLE_EQ(schedule.lr(40), 2.0);
  EXPECT_ERROR(schedule.lr(0), "schedule: there is no update 0; they count from 1");
  EXPECT_ERROR((Schedule{ScheduleKind::cosine, 1.0, 10, 10}.lr(11)),
               "schedule: cosine needs a total of updates above the warm-up's 10, not 10");
  EXPECT_ERROR(schedule_from_name("cosin"),
               "schedule: 'cosin' is unknown; there are constant, cosine, linear and inverse-sqrt");
  for (const ScheduleKind kind : {ScheduleKind::constant, ScheduleKind::cosine,
                                  ScheduleKind::linear, ScheduleKind::inverse_sqrt}) {
    EXPECT_EQ(schedule_from_name(name_of(kind)), kind);
  }
}

}  // namespace
}  // namespace heed::test
