// The gradients of whole networks in bfloat16 on cpu are those of the reference backend, which
// rounds the same values.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/cpu/select_bf16.h"
#include "trainer/backend/cpu/test_bf16.h"
#include "trainer/backend/executor.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/model_json.h"

namespace trainyard::engine {
namespace {

// One step of a preset on values that are the same for every backend.
class GradientStep {
 public:
  GradientStep(const std::string& preset, int64_t batch) {
    FieldErrors errors;
    const ModelSpec spec = ParseModelSpec({{"preset", preset}}, "model", errors);
    auto graph = BuildTrainingGraph(spec, batch);
    EXPECT_TRUE(errors.empty() && graph.ok());
    graph_ = *std::move(graph);
  }

  ParameterSet GradientsBy(Backend& backend) const {
    std::mt19937 random(3);
    ParameterSet parameters({graph_.parameters().begin(), graph_.parameters().end()});
    for (int key = 0; key < parameters.size(); ++key) {
      const Shape& shape = parameters.specs()[key].shape;
      const double fan_in = shape.rank() > 1 ? static_cast<double>(shape.elements()) / static_cast<double>(shape[-1]) : 1e4;
      std::normal_distribution<float> normal(0.0f, static_cast<float>(std::sqrt(1.0 / fan_in)));
      std::ranges::generate(parameters.values(key), [&] { return normal(random); });
    }
    std::vector<std::vector<float>> values(graph_.inputs().size());
    std::vector<std::vector<int32_t>> ids(graph_.inputs().size());
    std::vector<Feed> feeds;
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      const Node& node = graph_.node(graph_.inputs()[i]);
      const ValueSpec& spec = node.outputs[0];
      values[i].resize(static_cast<size_t>(spec.shape.elements()));
      std::uniform_real_distribution<float> uniform(0.0f, 1.0f);
      std::ranges::generate(values[i], [&] { return uniform(random); });
      if (spec.dtype == DType::kI32) {
        const auto limit = static_cast<float>(std::get<InputOp>(node.op).limit);
        for (const float value : values[i]) ids[i].push_back(static_cast<int32_t>(value * limit));
        feeds.push_back({node.name, {DType::kI32, spec.shape, ids[i].data()}});
      } else {
        feeds.push_back({node.name, {DType::kF32, spec.shape, values[i].data()}});
      }
    }
    const std::vector<ParameterSpec> states(graph_.states().begin(), graph_.states().end());
    ParameterSet state(states);
    ParameterSet gradients({graph_.parameters().begin(), graph_.parameters().end()});
    const auto executor = Executor::Create(graph_, backend);
    EXPECT_TRUE(executor.ok()) << executor.status();
    const absl::Status status = (*executor)->Run({.training = true}, feeds, parameters, &gradients, nullptr, &state);
    EXPECT_TRUE(status.ok()) << status;
    return gradients;
  }

 private:
  Graph graph_;
};

class Bf16PresetsTest : public testing::TestWithParam<std::string> {};

// Some values round to the other neighbour. Whole numbers of tiles round about as much as operands
// do: then the gradients are about as far from those of exact operands.
TEST_P(Bf16PresetsTest, GradientsAreThoseOfTheReference) {
  const GradientStep step(GetParam(), GetParam() == "ptbLstm" ? 1 : 5);
  const auto cpu = MakeCpuBackend({.threads = 2, .precision = Precision::kBfloat16});
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  const bool whole = SelectBf16Set("auto")->kernels.winograd_whole.product != nullptr;
  const ParameterSet expected = step.GradientsBy(*MakeReferenceBackend(DType::kF32, Precision::kBfloat16));
  const ParameterSet exact = step.GradientsBy(*MakeReferenceBackend(DType::kF32));
  const ParameterSet found = step.GradientsBy(**cpu);
  for (int key = 0; key < expected.size(); ++key) {
    SCOPED_TRACE(expected.specs()[key].name);
    if (whole) {
      const double rounded = ShareOff(expected.values(key), exact.values(key));
      EXPECT_LE(ShareOff(found.values(key), exact.values(key)), 1.5 * rounded + 0.005);
    } else {
      EXPECT_LE(ShareOff(found.values(key), expected.values(key)), 0.01);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, Bf16PresetsTest, testing::Values("lenet5", "mnistCnn", "ptbLstm"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace trainyard::engine
