#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "trainer/optim/make_optimizer.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;

OptimizerConfig Config(std::string_view name) { return DefaultOptimizerConfig(name); }

// One parameter with its slots, updated by one optimizer over whichever cut of the range.
struct Descent {
  explicit Descent(const OptimizerConfig& config, std::vector<float> start) : optimizer(*MakeOptimizer(config)), param(std::move(start)) {
    slots.assign(optimizer->slot_names().size(), std::vector<float>(param.size(), 0.0F));
  }
  void Apply(const UpdateContext& context, const std::vector<float>& grad, size_t begin, size_t end) {
    std::vector<std::span<float>> parts;
    for (auto& slot : slots) parts.push_back(std::span(slot).subspan(begin, end - begin));
    optimizer->Apply(context, std::span(param).subspan(begin, end - begin), std::span(grad).subspan(begin, end - begin), parts);
  }
  std::unique_ptr<Optimizer> optimizer;
  std::vector<float> param;
  std::vector<std::vector<float>> slots;
};

TEST(OptimizerTest, SgdStepsAgainstTheGradient) {
  Descent run(Config("sgd"), {1.0F, 2.0F});
  run.Apply({.learning_rate = 0.5, .step = 0}, {2.0F, -4.0F}, 0, 2);
  EXPECT_THAT(run.param, ElementsAre(0.0F, 4.0F));
}

TEST(OptimizerTest, MomentumKeepsADecayingSumOfSteps) {
  OptimizerConfig config = Config("momentum");
  config.momentum = 0.5;
  Descent run(config, {1.0F});
  run.Apply({.learning_rate = 0.25, .step = 0}, {1.0F}, 0, 1);  // v = -0.25
  EXPECT_THAT(run.param, ElementsAre(0.75F));
  run.Apply({.learning_rate = 0.5, .step = 1}, {1.0F}, 0, 1);  // v = -0.125 - 0.5: the learning rate of each step stays in v (Keras)
  EXPECT_THAT(run.param, ElementsAre(0.125F));
  EXPECT_THAT(run.slots[0], ElementsAre(-0.625F));
}

TEST(OptimizerTest, NesterovLooksOneStepAhead) {
  OptimizerConfig config = Config("nesterov");
  config.momentum = 0.5;
  Descent run(config, {1.0F});
  run.Apply({.learning_rate = 0.25, .step = 0}, {1.0F}, 0, 1);  // v = -0.25; w += 0.5 * v - 0.25
  EXPECT_THAT(run.param, ElementsAre(FloatEq(0.625F)));
}

class EveryOptimizer : public ::testing::TestWithParam<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, EveryOptimizer, ::testing::ValuesIn(OptimizerNames().begin(), OptimizerNames().end()),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(EveryOptimizer, GivesTheSameBitsHoweverTheRangeIsCut) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> start(1003);
  for (float& value : start) value = normal(random);
  Descent whole(Config(GetParam()), start);
  Descent cut(Config(GetParam()), start);
  for (int step = 0; step < 5; ++step) {
    std::vector<float> grad(start.size());
    for (float& value : grad) value = normal(random);
    const UpdateContext context{.learning_rate = 0.05 / (step + 1), .step = step};
    whole.Apply(context, grad, 0, grad.size());
    for (size_t begin = 0; begin < grad.size();) {
      const size_t end = std::min(grad.size(), begin + 1 + random() % 37);
      cut.Apply(context, grad, begin, end);
      begin = end;
    }
  }
  EXPECT_EQ(whole.param, cut.param);
  EXPECT_EQ(whole.slots, cut.slots);
  EXPECT_NE(whole.param, start);
}

TEST_P(EveryOptimizer, LowersASimpleLoss) {
  Descent run(Config(GetParam()), {3.0F, -2.0F});
  // Adadelta's steps grow from the size of epsilon; the others take a usual learning rate.
  const double rate = GetParam() == "adadelta" ? 20.0 : GetParam() == "adagrad" ? 1.0 : 0.05;
  for (int step = 0; step < 300; ++step) run.Apply({.learning_rate = rate, .step = step}, run.param, 0, 2);  // loss = |w|^2 / 2
  EXPECT_LT(std::hypot(run.param[0], run.param[1]), 0.1 * std::hypot(3.0, 2.0));
}

// A gradient of 40 rows of 25 elements that touches every seventh row.
struct RowGradient {
  explicit RowGradient(std::mt19937& random) : values(40 * kRow) {
    std::normal_distribution<float> normal;
    for (int32_t row = 3; row < 40; row += 7) {
      ids.push_back(row);
      for (size_t i = 0; i < kRow; ++i) values[row * kRow + i] = i % 5 == 0 ? -0.0F : normal(random);
    }
    touched.Reserve(40);
    touched.Touch(ids);
  }
  static constexpr size_t kRow = 25;
  std::vector<float> values;
  std::vector<int32_t> ids;
  TouchedRows touched;
};

TEST_P(EveryOptimizer, GivesTheSameBitsForTheRowsOfAGradientAsForAllOfIt) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<float> start(40 * RowGradient::kRow);
  for (float& value : start) value = random() % 8 == 0 ? -0.0F : normal(random);
  for (const double decay : {0.0, 0.1}) {
    OptimizerConfig config = Config(GetParam());
    config.weight_decay = decay;
    Descent dense(config, start);
    Descent rows(config, start);
    for (int step = 0; step < 5; ++step) {
      const RowGradient gradient(random);
      const UpdateContext context{.learning_rate = 0.05 / (step + 1), .step = step};
      dense.Apply(context, gradient.values, 0, gradient.values.size());
      std::vector<std::span<float>> slots(rows.slots.begin(), rows.slots.end());
      ApplyGradient(*rows.optimizer, context, rows.param, {gradient.values, gradient.touched}, RowGradient::kRow, slots);
    }
    EXPECT_EQ(std::memcmp(dense.param.data(), rows.param.data(), start.size() * sizeof(float)), 0);
    EXPECT_EQ(dense.slots, rows.slots);
  }
}

TEST_P(EveryOptimizer, GivesTheSameBitsOnAnyNumberOfThreads) {
  constexpr size_t kRows = 9'001;
  constexpr size_t kRow = 24;
  std::mt19937 random(13);
  std::normal_distribution<float> normal;
  std::vector<float> start(kRows * kRow);
  for (float& value : start) value = normal(random);
  std::vector<float> gradient(start.size());
  TouchedRows touched;
  touched.Reserve(kRows);
  std::vector<int32_t> ids;
  for (int32_t row = 1; row < static_cast<int32_t>(kRows); row += 2) ids.push_back(row);
  touched.Touch(ids);
  for (const int32_t row : ids) {
    for (float& value : std::span(gradient).subspan(static_cast<size_t>(row) * kRow, kRow)) value = normal(random);
  }
  ThreadPool pool(3);
  for (const GradientView& view : {GradientView(std::span<const float>(gradient)), GradientView(gradient, touched)}) {
    Descent alone(Config(GetParam()), start);
    Descent shared(Config(GetParam()), start);
    for (int step = 0; step < 3; ++step) {
      const UpdateContext context{.learning_rate = 0.05, .step = step};
      alone.Apply(context, gradient, 0, gradient.size());
      std::vector<std::span<float>> slots(shared.slots.begin(), shared.slots.end());
      ApplyGradient(*shared.optimizer, context, shared.param, view, kRow, slots, &pool);
    }
    EXPECT_EQ(alone.param, shared.param);
    EXPECT_EQ(alone.slots, shared.slots);
  }
}

TEST(OptimizerTest, OnlyRulesWithoutMemoryOfOldGradientsTakeRowsAlone) {
  std::vector<std::string_view> names;
  for (const std::string_view name : OptimizerNames()) {
    OptimizerConfig config = Config(name);
    if ((*MakeOptimizer(config))->KeepsWhereGradientIsZero()) names.push_back(name);
    config.weight_decay = 0.01;
    EXPECT_FALSE((*MakeOptimizer(config))->KeepsWhereGradientIsZero()) << name;
  }
  EXPECT_THAT(names, ElementsAre("sgd", "adagrad"));
}

TEST(OptimizerTest, AnUnknownNameIsRefusedWithTheKnownOnes) {
  const auto status = MakeOptimizer(Config("sgdd")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("optimizer.name: found \"sgdd\", expected one of sgd, momentum, nesterov"));
}

TEST(OptimizerTest, NumbersOutOfRangeAreRefusedByName) {
  OptimizerConfig config = Config("sgd");
  config.learning_rate = 0;
  EXPECT_THAT(std::string(MakeOptimizer(config).status().message()), HasSubstr("optimizer.learningRate: found 0"));
  config.learning_rate = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(MakeOptimizer(config).ok());
  config.learning_rate = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(MakeOptimizer(config).ok());
  config = Config("momentum");
  config.momentum = 1;
  EXPECT_THAT(std::string(MakeOptimizer(config).status().message()), HasSubstr("optimizer.momentum: found 1"));
  config = Config("adam");
  config.beta2 = 1;
  EXPECT_THAT(std::string(MakeOptimizer(config).status().message()), HasSubstr("optimizer.beta2: found 1"));
  config = Config("adam");
  config.epsilon = 0;
  EXPECT_THAT(std::string(MakeOptimizer(config).status().message()), HasSubstr("optimizer.epsilon: found 0"));
  config = Config("sgd");
  config.weight_decay = -1;
  EXPECT_THAT(std::string(MakeOptimizer(config).status().message()), HasSubstr("optimizer.weightDecay: found -1"));
}

}  // namespace
}  // namespace trainyard::engine
