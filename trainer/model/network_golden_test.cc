// The first training steps of whole networks on every backend against PyTorch.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <span>

#include "tests/support/sanitized.h"
#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/cuda/cuda_backend.h"
#include "trainer/backend/cuda/device_backend.h"
#include "trainer/backend/cuda/test_host_device.h"
#include "trainer/backend/executor.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/model_json.h"
#include "trainer/model/test_golden_networks.h"
#include "trainer/optim/clip.h"
#include "trainer/optim/make_optimizer.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

std::vector<ParameterSpec> ListOf(std::span<const ParameterSpec> specs) { return {specs.begin(), specs.end()}; }

// A worker's use of the gradients of its step.
class Updates {
 public:
  Updates(const OptimizerConfig& config, const std::vector<ParameterSpec>& specs) : config_(config), optimizer_(*MakeOptimizer(config)) {
    for (size_t slot = 0; slot < optimizer_->slot_names().size(); ++slot) slots_.emplace_back(specs);
  }

  void Apply(size_t step, ParameterSet& gradients, ParameterSet& parameters) {
    if (config_.clip_norm > 0) ClipByGlobalNorm(config_.clip_norm, gradients);
    for (int key = 0; key < parameters.size(); ++key) {
      if (!parameters.spec(key).trainable) {
        std::ranges::copy(gradients.values(key), parameters.values(key).begin());
        continue;
      }
      std::vector<std::span<float>> state;
      for (ParameterSet& slot : slots_) state.push_back(slot.values(key));
      ApplyGradient(*optimizer_, {.learning_rate = config_.learning_rate, .step = static_cast<int64_t>(step)}, parameters.values(key),
                    gradients.gradient(key), static_cast<size_t>(parameters.spec(key).row_elements()), state);
    }
  }

 private:
  OptimizerConfig config_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<ParameterSet> slots_;
};

struct NetworkCase {
  std::string network;
  std::string backend;
  size_t steps;  // of the 50
  friend void PrintTo(const NetworkCase& c, std::ostream* out) { *out << c.steps << " steps"; }
};
std::string Name(const ::testing::TestParamInfo<NetworkCase>& info) { return info.param.network + "_" + info.param.backend; }

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const std::string& name) {
  if (name == "reference") return MakeReferenceBackend();
  if (name == "reference_f64") return MakeReferenceBackend(DType::kF64);
  if (name == "cuda") return MakeCudaBackend({});
  if (name == "cuda_on_host") return cuda::MakeDeviceBackend(std::make_unique<cuda::HostDevice>());
  if (name == "cpu_two_threads") return MakeCpuBackend({.threads = 2});
  return MakeCpuBackend({.threads = 1, .isa = name == "cpu" ? "auto" : name});
}

// Trains a network as the judge did and holds its losses, and in the end its parameters, against
// it.
class NetworkGoldenTest : public ::testing::TestWithParam<NetworkCase> {};

constexpr double kEndDrifts = 5;  // of the middle of many parameters
// A drift beyond rounding begins where rounding changes the winner of a pool, or the sign before a
// ReLU, and grows from step to step. It may begin so many steps before PyTorch's.
constexpr size_t kStepsAhead = 16;
constexpr size_t kMostSteps = kSanitized ? 2 : 50;

// Mean and root of the mean square of some values.
using Extract = std::array<double, 2>;

Extract ExtractOf(std::span<const float> values) {
  double sum = 0;
  double squares = 0;
  for (const float value : values) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const auto count = static_cast<double>(values.size());
  return {sum / count, std::sqrt(squares / count)};
}

double Distance(const Extract& found, const Extract& wanted) {
  return std::max(std::abs(found[0] - wanted[0]), std::abs(found[1] - wanted[1])) / wanted[1];
}

// How far PyTorch in float32 is from the exact losses, at most, up to `step` and kStepsAhead.
double DriftOf(std::span<const double> single, std::span<const double> exact, size_t step) {
  double drift = 0;
  for (size_t i = 0; i < std::min(single.size(), step + kStepsAhead + 1); ++i) drift = std::max(drift, std::abs(single[i] - exact[i]));
  return drift;
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Rounding drives single parameters by chance. So the test holds the relative distance of the
// parameter in the middle. Far behind it come biases of convolutions before a norm: their gradients
// are nothing but rounding, and Adam follows their signs.
void ExpectEnd(const ParameterSet& parameters, const json& exact, const json& single) {
  std::vector<double> distances;
  std::vector<double> single_distances;
  for (int key = 0; key < parameters.size(); ++key) {
    const std::string& name = parameters.spec(key).name;
    const auto wanted = exact.at(name).get<Extract>();
    distances.push_back(Distance(ExtractOf(parameters.values(key)), wanted));
    single_distances.push_back(Distance(single.at(name).get<Extract>(), wanted));
  }
  EXPECT_EQ(distances.size(), exact.size());
  EXPECT_LE(Median(distances), kEndDrifts * Median(single_distances) + kLossRounding);
}

TEST_P(NetworkGoldenTest, FirstStepsFollowPyTorch) {
  auto backend = MakeBackend(GetParam().backend);
  if (!backend.ok()) GTEST_SKIP() << "this machine cannot run it: " << backend.status();
  const json golden = GoldenNetwork(GetParam().network);
  FieldErrors errors;
  const ModelSpec spec = ParseModelSpec(golden.at("model"), "model", errors);
  ASSERT_TRUE(errors.empty()) << errors.ToStatus("golden");
  const int64_t batch = golden.at("batch").get<int64_t>();
  auto executor = Executor::Create(*BuildTrainingGraph(spec, batch), **backend);
  ASSERT_TRUE(executor.ok()) << executor.status();
  const std::vector<ParameterSpec> specs = ListOf((*executor)->graph().parameters());
  ParameterSet parameters(specs);
  ParameterSet gradients(specs);
  ParameterSet state(ListOf((*executor)->graph().states()));  // zero at first; every step leaves what the next one begins with
  Updates updates(OptimizerOf(golden.at("optimizer")), specs);
  SetStartValues(parameters);

  const auto batches = MakeBatches(spec, batch);
  const auto losses = golden.at("losses").get<std::vector<double>>();
  const auto single = golden.at("float32Losses").get<std::vector<double>>();
  const size_t steps = std::min(GetParam().steps, kMostSteps);
  for (size_t step = 0; step < steps; ++step) {
    const auto feeds = batches->Make(static_cast<int64_t>(step));
    const absl::Status status = (*executor)->Run({.seed = 1, .step = step}, feeds, parameters, &gradients, nullptr, &state);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_NEAR(*(*executor)->Scalar(kLossOutput), losses[step], kDrifts * DriftOf(single, losses, step) + kLossRounding)
        << "step " << step;
    updates.Apply(step, gradients, parameters);
  }
  if (steps == losses.size()) ExpectEnd(parameters, golden.at("end"), golden.at("float32End"));
}

INSTANTIATE_TEST_SUITE_P(Networks, NetworkGoldenTest,
                         ::testing::Values(NetworkCase{"lenet5", "cpu", 50}, NetworkCase{"lenet5", "cpu_two_threads", 50},
                                           NetworkCase{"lenet5", "avx2", 50}, NetworkCase{"lenet5", "baseline", 20},
                                           NetworkCase{"lenet5", "reference_f64", 5}, NetworkCase{"lenet5", "cuda", 50},
                                           NetworkCase{"lenet5", "cuda_on_host", 2}, NetworkCase{"mnistCnn", "cuda", 50},
                                           NetworkCase{"resnet56v2", "cuda", 50}, NetworkCase{"ptbLstm", "cuda", 50},
                                           NetworkCase{"mnistCnn", "cpu", 50}, NetworkCase{"mnistCnn", "avx2", 10},
                                           NetworkCase{"mnistCnn", "reference_f64", 2}, NetworkCase{"resnet56v2", "cpu", 50},
                                           NetworkCase{"resnet56v2", "avx2", 10}, NetworkCase{"resnet56v2", "baseline", 5},
                                           NetworkCase{"resnet56v2", "reference_f64", 2}, NetworkCase{"ptbLstm", "cpu", 50},
                                           NetworkCase{"ptbLstm", "cpu_two_threads", 50}, NetworkCase{"ptbLstm", "avx2", 50},
                                           NetworkCase{"ptbLstm", "baseline", 20}, NetworkCase{"ptbLstm", "reference_f64", 20}),
                         Name);

}  // namespace
}  // namespace trainyard::engine
