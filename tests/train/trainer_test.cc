// Trainer: callbacks, stopping, and the same weights as a loop of one's own.
#include <gtest/gtest.h>

#include <cmath>

#include "heed/ops.h"
#include "heed/runtime.h"
#include "heed/tensor.h"
#include "heed/train.h"
#include "support/check.h"
#include "support/data.h"
#include "train/small_run.h"

namespace heed::test {
namespace {

constexpr const char* kConfig =
    R"({"model_type": "gpt2", "vocab_size": 11, "n_embd": 16, "n_layer": 1,
  "n_head": 2, "n_positions": 16, "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1})";

TokenShard text() {
  std::vector<TokenId> ids(400);
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<TokenId>(i * i % 11);
  }
  return TokenShard::from({ids});
}

std::unique_ptr<Loader> loader(bool shuffle = true) {
  return make_lm_loader(text(), 8, {.batch = 4, .seed = 3, .shuffle = shuffle});
}

std::vector<double> weights_of(const Model& model) {
  std::vector<double> all;
  for (const Parameter& parameter : model.parameters()) {
    const std::vector<double> values = parameter.tensor.detach().to_doubles();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(Trainer, GivesTheWeightsOfTheOpenLoop) {
  const TrainerOptions options{.steps = 5, .lr = 1e-2, .warmup = 2, .seed = 9};
  const auto trained = create_model(kConfig, 1);
  const auto batches = loader();
  std::vector<double> losses;
  Trainer trainer(*trained, *batches, options);
  trainer.on_step([&](const TrainProgress& progress) {
    losses.push_back(progress.loss);
    EXPECT_EQ(progress.step, static_cast<int64_t>(losses.size()));
    EXPECT_EQ(progress.steps, 5);
    EXPECT_TRUE(progress.finite);
  });
  trainer.run();
  EXPECT_EQ(trainer.steps_done(), 5);
  EXPECT_FALSE(trainer.interrupted());

  const auto model = create_model(kConfig, 1);
  const auto again = loader();
  Optimizer optimizer(decay_groups(named_tensors(model->parameters()), 0.01), {.beta2 = 0.98});
  const Schedule schedule{ScheduleKind::cosine, 1e-2, 2, 5, 0.1};
  for (int64_t step = 1; step <= 5; ++step) {
    set_random_state({9, static_cast<uint64_t>(step - 1) << 16});
    ModelInput input = again->next();
    input.training = input.skip_padding = true;
    input.want_logits = false;
    const Tensor loss = model->forward(input).loss;
    EXPECT_EQ(loss.item(), losses[static_cast<size_t>(step - 1)]);
    backward(loss);
    const double norm = optimizer.grad_norm();
    optimizer.set_lr(schedule.lr(step));
    optimizer.step(norm > 1.0 ? 1.0 / norm : 1.0);
    optimizer.zero_grad();
  }
  EXPECT_TRUE(weights_of(*model) == weights_of(*trained)) << "not the same bits";
}

TEST(Trainer, MicroBatchesComputeTheSameStep) {
  std::vector<std::vector<double>> losses;
  for (const int64_t micro : {0, 3}) {
    const auto model = create_model(kConfig, 1);
    const auto batches = loader();
    Trainer trainer(*model, *batches, {.steps = 3, .micro_batch = micro});
    losses.emplace_back();
    for (int i = 0; i < 3; ++i) {
      losses.back().push_back(trainer.step().loss);
    }
  }
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(losses[0][i], losses[1][i], 1e-4);
  }
}

TEST(Trainer, CallsBackAndStops) {
  const auto model = create_model(kConfig, 1);
  const auto batches = loader();
  const auto validation = loader(false);
  Trainer trainer(*model, *batches, {.steps = 10, .lr = 1e-2});
  std::vector<int64_t> seen;
  std::vector<double> found;
  trainer.on_every(3, [&](Trainer& t) {
    seen.push_back(t.steps_done());
    found.push_back(t.evaluate(*validation));
    if (t.steps_done() == 6) {
      t.stop();
    }
  });
  trainer.run();
  EXPECT_EQ(seen, (std::vector<int64_t>{3, 6}));
  EXPECT_LT(found[1], found[0]);
  EXPECT_FALSE(trainer.interrupted()) << "it stopped itself";
  std::stop_source source;
  trainer.on_step([&](const TrainProgress& progress) {
    if (progress.step == 8) {
      source.request_stop();
    }
  });
  trainer.run(source.get_token());
  EXPECT_EQ(trainer.steps_done(), 8);
  EXPECT_TRUE(trainer.interrupted());
  trainer.run();  // goes on
  EXPECT_EQ(trainer.steps_done(), 10);
  EXPECT_EQ(seen.back(), 10) << "the last step counts, too";
}

TEST(Trainer, GivesUpAStepThatIsUnderWayAndMakesItAgain) {
  const auto train_six = [](bool stop_in_the_fourth) {
    const auto model = create_model(kConfig, 1);
    const auto batches = loader();
    std::stop_source source;
    int calls = 0;
    const LossFunction loss = [&](const Model& m, const ModelInput& input) {
      if (++calls == 4 && stop_in_the_fourth) {
        source.request_stop();
      }
      return m.forward(input).loss;
    };
    Trainer trainer(*model, *batches, {.steps = 6, .lr = 1e-2, .loss = loss});
    trainer.run(source.get_token());
    if (stop_in_the_fourth) {
      EXPECT_EQ(trainer.steps_done(), 3);
      EXPECT_EQ(batches->state().step, 3) << "the batch comes again";
      EXPECT_TRUE(trainer.interrupted());
      trainer.run();
    }
    EXPECT_EQ(trainer.steps_done(), 6);
    return weights_of(*model);
  };
  EXPECT_EQ(train_six(true), train_six(false));
}

TEST(Trainer, TakesALossOfItsOwnAndFreezes) {
  const auto model = create_model(kConfig, 1);
  const auto batches = loader();
  const Tensor before = model->parameters().front().tensor.detach().clone();
  int calls = 0;
  const LossFunction twice = [&](const Model& m, const ModelInput& input) {
    ++calls;
    return mul(m.forward(input).loss, 2.0);
  };
  Trainer trainer(*model, *batches,
                  {.steps = 2, .freeze = {model->parameters().front().name}, .loss = twice});
  const double first = trainer.step().loss;
  EXPECT_NEAR(first, 2 * std::log(11.0), 0.5);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(before.to_doubles(), model->parameters().front().tensor.detach().to_doubles());
  for (const std::string& name : {std::string("nothing"), std::string()}) {
    try {
      Trainer(*model, *batches, {.freeze = {name}});
      FAIL() << "was accepted";
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what())
                      .starts_with(name.empty()
                                       ? "freeze: leaves nothing to train"
                                       : "freeze: no parameter's name begins with 'nothing'; the"))
          << error.what();
    }
  }
}

TEST(Train, StopsWhereItIsAskedToAndGoesOn) {
  const TemporaryFolder folder;
  TrainOptions options = small_run(folder, "run");
  options.probes = 0;
  std::stop_source source;
  TrainCallbacks callbacks;
  callbacks.stop = source.get_token();
  int stopping = 0;
  bool started = false;
  callbacks.on_start = [&] { started = true; };
  callbacks.on_stopping = [&] { ++stopping; };
  callbacks.on_step = [&](const TrainProgress& progress) {
    EXPECT_TRUE(started);
    if (progress.step == 5) {
      source.request_stop();
    }
  };
  const TrainResult stopped = train(options, callbacks);
  EXPECT_TRUE(stopped.interrupted);
  EXPECT_EQ(stopped.steps, 5);
  EXPECT_EQ(stopping, 1);
  EXPECT_TRUE(std::filesystem::exists(options.out / "checkpoints" / "step-000005"));
  options.resume = true;
  const TrainResult whole = train(options);
  EXPECT_FALSE(whole.interrupted);
  EXPECT_EQ(whole.steps, 12);
  TrainOptions unbroken = small_run(folder, "unbroken");
  unbroken.probes = 0;
  train(unbroken);
  EXPECT_EQ(weights_of(*load_model(options.out)), weights_of(*load_model(unbroken.out)));
}

}  // namespace
}  // namespace heed::test
