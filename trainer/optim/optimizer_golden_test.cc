// Optimizers against Keras and PyTorch: tests/golden/make_golden.py says how the file was made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "trainer/optim/clip.h"
#include "trainer/optim/lr_schedule.h"
#include "trainer/optim/make_optimizer.h"
#include "trainer/tensor/safetensors.h"

namespace trainyard::engine {
namespace {

constexpr char kFile[] = "tests/golden/optimizers.safetensors";

OptimizerConfig ConfigOf(const nlohmann::json& options) {
  OptimizerConfig config = DefaultOptimizerConfig(options.at("name").get<std::string>());
  config.learning_rate = options.value("learningRate", config.learning_rate);
  config.momentum = options.value("momentum", config.momentum);
  config.rho = options.value("rho", config.rho);
  config.beta1 = options.value("beta1", config.beta1);
  config.weight_decay = options.value("weightDecay", config.weight_decay);
  if (options.contains("schedule")) {
    const auto& schedule = options.at("schedule");
    config.schedule = {.kind = LrScheduleConfig::Kind::kExponential,
                       .decay_steps = schedule.at("decaySteps").get<int64_t>(),
                       .decay_rate = schedule.at("decayRate").get<double>()};
  }
  return config;
}

TEST(OptimizerGoldenTest, TenStepsOfEveryOptimizerEndWhereKerasEnds) {
  const auto file = Safetensors::Read(kFile);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto start = file->Get("start")->values<float>();
  const Tensor gradients = *file->Get("gradients");
  const size_t elements = start.size();
  std::vector<std::string> seen;
  for (const auto& [key, text] : file->metadata()) {
    if (!key.starts_with("case ")) continue;
    const std::string name = key.substr(5);
    SCOPED_TRACE(name);
    const OptimizerConfig config = ConfigOf(nlohmann::json::parse(text));
    seen.push_back(config.name);
    const auto optimizer = MakeOptimizer(config);
    ASSERT_TRUE(optimizer.ok()) << optimizer.status();
    const auto expected = file->Get(name + "/values")->values<float>();
    std::vector<float> param(start.begin(), start.end());
    std::vector<std::vector<float>> slots((*optimizer)->slot_names().size(), std::vector<float>(elements));
    const std::vector<std::span<float>> slot_spans(slots.begin(), slots.end());
    for (int64_t step = 0; step < gradients.shape[0]; ++step) {
      const UpdateContext context{.learning_rate = LearningRateAt(config, step), .step = step};
      (*optimizer)->Apply(context, param, gradients.values<float>().subspan(step * elements, elements), slot_spans);
      for (size_t i = 0; i < elements; ++i) {
        const float wanted = expected[step * elements + i];
        ASSERT_NEAR(param[i], wanted, 2e-6 * std::max(1.0F, std::abs(wanted))) << "step " << step << " element " << i;
      }
    }
  }
  for (const std::string_view name : OptimizerNames()) EXPECT_THAT(seen, ::testing::Contains(std::string(name)));
}

TEST(OptimizerGoldenTest, ClippingGivesPyTorchsGradientsAndNorm) {
  const auto file = Safetensors::Read(kFile);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto gradients = file->Get("gradients")->values<float>();
  const auto clipped = file->Get("clip/clipped")->values<float>();
  ParameterSet set({{.name = "w", .shape = {static_cast<int64_t>(clipped.size())}}});
  std::copy_n(gradients.begin(), clipped.size(), set.values(0).begin());
  EXPECT_NEAR(ClipByGlobalNorm(1000.0, set), file->Get("clip/norm")->values<float>()[0], 1e-5);
  EXPECT_THAT(set.values(0), ::testing::Pointwise(::testing::FloatEq(), file->Get("clip/unclipped")->values<float>()));
  ClipByGlobalNorm(1.0, set);
  EXPECT_THAT(set.values(0), ::testing::Pointwise(::testing::FloatNear(2e-6), clipped));
}

}  // namespace
}  // namespace trainyard::engine
