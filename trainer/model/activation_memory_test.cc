// How much memory a training step takes in bfloat16 beside float32.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/executor.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/model_json.h"

namespace trainyard::engine {
namespace {

struct PresetStep {
  std::string preset;
  int64_t batch;
};

// Counted are all values between the ops of a step, forward and backward. Parameters, their
// gradients, and what a kernel works in are no part of it.
double MegabytesOf(const PresetStep& step, Precision precision) {
  FieldErrors errors;
  const ModelSpec spec = ParseModelSpec({{"preset", step.preset}}, "model", errors);
  EXPECT_TRUE(errors.empty());
  auto graph = BuildTrainingGraph(spec, step.batch);
  auto backend = MakeCpuBackend({.threads = 1, .precision = precision});
  EXPECT_TRUE(graph.ok() && backend.ok());
  const auto executor = Executor::Create(*std::move(graph), **backend);
  EXPECT_TRUE(executor.ok()) << executor.status();
  return executor.ok() ? static_cast<double>((*executor)->plan().arena_bytes) * 1e-6 : 0;
}

class ActivationMemoryTest : public testing::TestWithParam<PresetStep> {};

TEST_P(ActivationMemoryTest, AStepInBfloat16TakesAtMostSixTenths) {
  EXPECT_LE(MegabytesOf(GetParam(), Precision::kBfloat16), 0.6 * MegabytesOf(GetParam(), Precision::kFloat32));
}

INSTANTIATE_TEST_SUITE_P(Presets, ActivationMemoryTest,
                         testing::Values(PresetStep{"lenet5", 128}, PresetStep{"mnistCnn", 128}, PresetStep{"resnet56v2", 16},
                                         PresetStep{"ptbLstm", 20}),
                         [](const auto& info) { return info.param.preset; });

}  // namespace
}  // namespace trainyard::engine
