// Networks on every backend against PyTorch: tests/golden/make_golden.py says how the files were
// made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/cuda/cuda_backend.h"
#include "trainer/backend/cuda/device_backend.h"
#include "trainer/backend/cuda/test_host_device.h"
#include "trainer/backend/executor.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/model_json.h"
#include "trainer/optim/make_optimizer.h"
#include "trainer/tensor/safetensors.h"

namespace trainyard::engine {
namespace {

struct BackendCase {
  std::string name;
  std::function<absl::StatusOr<std::unique_ptr<Backend>>()> make;
  friend void PrintTo(const BackendCase& c, std::ostream* out) { *out << c.name; }
};

class GoldenTest : public ::testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override {
    auto made = GetParam().make();
    if (!made.ok()) GTEST_SKIP() << "this machine cannot run it: " << made.status();
    backend_ = *std::move(made);
  }
  std::unique_ptr<Backend> backend_;
};

INSTANTIATE_TEST_SUITE_P(Backends, GoldenTest,
                         ::testing::Values(BackendCase{"reference", [] { return MakeReferenceBackend(); }},
                                           BackendCase{"reference_f64", [] { return MakeReferenceBackend(DType::kF64); }},
                                           BackendCase{"cpu_baseline", [] { return MakeCpuBackend({.threads = 1, .isa = "baseline"}); }},
                                           BackendCase{"cpu_avx2", [] { return MakeCpuBackend({.threads = 1, .isa = "avx2"}); }},
                                           BackendCase{"cpu_avx512", [] { return MakeCpuBackend({.threads = 1, .isa = "avx512"}); }},
                                           BackendCase{"cpu_two_threads", [] { return MakeCpuBackend({.threads = 2}); }},
                                           BackendCase{"cuda_on_host",
                                                       [] { return cuda::MakeDeviceBackend(std::make_unique<cuda::HostDevice>()); }},
                                           BackendCase{"cuda", [] { return MakeCudaBackend({}); }}),
                         [](const auto& info) { return info.param.name; });

ModelSpec ParseModel(const std::string& text) {
  FieldErrors errors;
  ModelSpec spec = ParseModelSpec(nlohmann::json::parse(text), "model", errors);
  EXPECT_TRUE(errors.empty()) << errors.ToStatus("golden");
  return spec;
}

void Fill(const Safetensors& file, const std::string& prefix, ParameterSet& parameters) {
  for (int key = 0; key < parameters.size(); ++key) {
    const Tensor tensor = *file.Get(prefix + parameters.spec(key).name);
    ASSERT_EQ(tensor.shape, parameters.spec(key).shape);
    std::ranges::copy(tensor.values<float>(), parameters.values(key).begin());
  }
}

// Rounding grows with the size of the sums, so the error is held against the largest value of the
// tensor.
void ExpectNear(std::span<const float> found, std::span<const float> expected, double tolerance, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  float largest = 1e-3F;
  for (const float value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], tolerance * largest) << what << "[" << i << "]";
  }
}

// Each case of `path`: one step, held against loss, output and gradients.
void ExpectOneStepLikeTheirs(Backend& backend, const std::string& path, int least_cases) {
  const auto file = Safetensors::Read(path);
  ASSERT_TRUE(file.ok()) << file.status();
  int cases = 0;
  for (const auto& [key, text] : file->metadata()) {
    if (!key.starts_with("case ")) continue;
    const std::string name = key.substr(5);
    SCOPED_TRACE(name);
    const ModelSpec spec = ParseModel(text);
    const Tensor input = *file->Get(name + "/input");
    auto graph = BuildTrainingGraph(spec, input.shape[0]);
    ASSERT_TRUE(graph.ok()) << graph.status();
    auto executor = Executor::Create(*std::move(graph), backend);
    ASSERT_TRUE(executor.ok()) << executor.status();
    const auto specs = (*executor)->graph().parameters();
    ParameterSet parameters(std::vector<ParameterSpec>(specs.begin(), specs.end()));
    ParameterSet gradients(std::vector<ParameterSpec>(specs.begin(), specs.end()));
    Fill(*file, name + "/value/", parameters);

    const bool classes = spec.loss == Loss::kSoftmaxCrossEntropy;
    const std::vector<Feed> feeds{{.name = kInputName, .tensor = input},
                                  {.name = classes ? kLabelsFeed : kTargetFeed, .tensor = *file->Get(name + "/wanted")}};
    const absl::Status status = (*executor)->Run({}, feeds, parameters, &gradients, nullptr);
    ASSERT_TRUE(status.ok()) << status;

    const float loss = file->Get(name + "/loss")->values<float>()[0];
    EXPECT_NEAR(*(*executor)->Scalar(kLossOutput), loss, 2e-6 * std::max(1.0F, loss));
    const Tensor expected_output = *file->Get(name + "/output");
    std::vector<float> output(static_cast<size_t>(expected_output.shape.elements()));
    // Training keeps no logits: the forward graph alone gives them.
    auto forward = Executor::Create(*BuildInferenceGraph(spec, input.shape[0]), backend);
    ASSERT_TRUE(forward.ok()) << forward.status();
    ASSERT_TRUE((*forward)->Run({}, std::span(feeds).first(1), parameters, nullptr, nullptr).ok());
    ASSERT_TRUE((*forward)->Fetch(classes ? kLogitsOutput : kPredictionOutput, {DType::kF32, expected_output.shape, output.data()}).ok());
    ExpectNear(output, expected_output.values<float>(), 3e-6, "output");
    for (int parameter = 0; parameter < gradients.size(); ++parameter) {
      const std::string& parameter_name = gradients.spec(parameter).name;
      ExpectNear(gradients.values(parameter), file->Get(name + "/gradient/" + parameter_name)->values<float>(), 1e-5, parameter_name);
    }
    ++cases;
  }
  EXPECT_GE(cases, least_cases);
}

TEST_P(GoldenTest, OneStepOfEveryLayerGivesPyTorchsLossOutputAndGradients) {
  ExpectOneStepLikeTheirs(*backend_, "tests/golden/layers.safetensors", 17);
}

TEST_P(GoldenTest, OneStepOfEveryRecurrentLayerGivesKerasLossOutputAndGradients) {
  ExpectOneStepLikeTheirs(*backend_, "tests/golden/recurrent.safetensors", 13);
}

// The result of a step for a parameter becomes its value, by the optimizer or as it is.
void Update(const Optimizer& optimizer, const UpdateContext& context, int key, const ParameterSet& gradients, ParameterSet& momentum,
            ParameterSet& parameters) {
  if (!parameters.spec(key).trainable) {
    std::ranges::copy(gradients.values(key), parameters.values(key).begin());
    return;
  }
  const std::span<float> slot = momentum.values(key);
  optimizer.Apply(context, parameters.values(key), gradients.values(key), std::span(&slot, 1));
}

// Tolerances are for losses, and for values relative to the largest of their tensor.
struct Tolerance {
  double loss;
  double value;
};

void ExpectTwentyStepsLikePyTorchs(Backend& backend, const std::string& path, const Tolerance& tolerance) {
  const auto file = Safetensors::Read(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const ModelSpec spec = ParseModel(file->metadata().at("model"));
  const auto options = nlohmann::json::parse(file->metadata().at("optimizer"));
  OptimizerConfig config = DefaultOptimizerConfig(options.at("name").get<std::string>());
  config.momentum = options.at("momentum").get<double>();
  const auto optimizer = *MakeOptimizer(config);

  const auto losses = file->Get("losses")->values<float>();
  auto executor = Executor::Create(*BuildTrainingGraph(spec, file->Get("input/0")->shape[0]), backend);
  ASSERT_TRUE(executor.ok()) << executor.status();
  const auto specs = (*executor)->graph().parameters();
  const std::vector<ParameterSpec> list(specs.begin(), specs.end());
  ParameterSet parameters(list);
  ParameterSet gradients(list);
  ParameterSet momentum(list);
  Fill(*file, "start/", parameters);
  for (size_t step = 0; step < losses.size(); ++step) {
    const std::vector<Feed> feeds{{.name = kInputName, .tensor = *file->Get("input/" + std::to_string(step))},
                                  {.name = kLabelsFeed, .tensor = *file->Get("labels/" + std::to_string(step))}};
    ASSERT_TRUE((*executor)->Run({.step = step}, feeds, parameters, &gradients, nullptr).ok());
    EXPECT_NEAR(*(*executor)->Scalar(kLossOutput), losses[step], tolerance.loss) << "step " << step;
    for (int key = 0; key < parameters.size(); ++key) {
      Update(*optimizer, {.learning_rate = options.at("learningRate").get<double>(), .step = static_cast<int64_t>(step)}, key, gradients,
             momentum, parameters);
    }
  }
  for (int key = 0; key < parameters.size(); ++key) {
    const std::string& name = parameters.spec(key).name;
    ExpectNear(parameters.values(key), file->Get("end/" + name)->values<float>(), tolerance.value, name);
  }
}

constexpr Tolerance kRounding{.loss = 2e-5, .value = 5e-5};

TEST_P(GoldenTest, TwentyStepsOfTrainingFollowPyTorch) {
  ExpectTwentyStepsLikePyTorchs(*backend_, "tests/golden/training.safetensors", kRounding);
}

// A relu whose input lies within rounding of 0 may cut in f32 and not in f64. Later steps make the
// difference larger.
TEST_P(GoldenTest, TwentyStepsOfAResidualNetworkFollowPyTorch) {
  const bool exact = backend_->name() == "reference-f64";
  ExpectTwentyStepsLikePyTorchs(*backend_, "tests/golden/residual.safetensors", exact ? kRounding : Tolerance{.loss = 1e-3, .value = 1e-2});
}

}  // namespace
}  // namespace trainyard::engine
