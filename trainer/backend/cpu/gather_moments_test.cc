// A batch normalisation whose statistics the convolution before it gathers agrees with the
// reference backend, on each instruction set and for any number of threads.
#include "trainer/backend/cpu/gather_moments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/cpu/test_kernels.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"

namespace trainyard::engine {
namespace {

// x [batch, size, width, channels] → conv (+ x or another convolution) → batch normalisation.
struct NormCase {
  int64_t batch = 1, size = 4, width = 4, channels = 2, filters = 2;
  int kernel = 1, stride = 1;
  bool bias = false, add = false;
  float epsilon = 1e-2f;
};

Value NormLayer(Trial& trial, const std::string& name, Value x, float epsilon) {
  GraphBuilder& b = trial.builder();
  const Shape channels = {b.spec(x).shape[-1]};
  const BatchNormParameters parameters = {.gamma = trial.Parameter(name + "/gamma", channels),
                                          .beta = trial.Parameter(name + "/beta", channels),
                                          .moving_mean = trial.Parameter(name + "/mean", channels, /*trainable=*/false),
                                          .moving_variance = trial.Parameter(name + "/variance", channels, /*trainable=*/false)};
  const Value y = *b.BatchNorm(name, x, parameters, 0.5f, epsilon);
  EXPECT_TRUE(b.NextValue(parameters.moving_mean, {y.node, 1}).ok());
  EXPECT_TRUE(b.NextValue(parameters.moving_variance, {y.node, 2}).ok());
  return y;
}

Value NormedConv(Trial& trial, const std::string& name, Value x, const NormCase& c, int kernel) {
  GraphBuilder& b = trial.builder();
  const Shape shape = {kernel, kernel, b.spec(x).shape[3], c.filters};
  return *b.Conv2d(name, x, trial.Parameter(name + "/kernel", shape), {c.stride, c.stride}, Padding::kSame);
}

Trial NormNetwork(const NormCase& c, float offset = 1.0f) {
  Trial trial;
  GraphBuilder& b = trial.builder();
  const Value x = trial.Input("x", {c.batch, c.size, c.width, c.channels});
  const Value shortcut = c.add ? NormedConv(trial, "shortcut", x, c, 1) : Value{};
  Value y = NormedConv(trial, "conv", x, c, c.kernel);
  if (c.bias) {
    y = *b.Bias("bias", y, trial.Parameter("offset", {c.filters}));
    trial.Scale(offset);
  }
  if (c.add) y = *b.Add("sum", std::array{shortcut, y});
  y = *b.Activate("relu", NormLayer(trial, "norm", y, c.epsilon), Activation::kRelu);
  const Value flat = *b.Flatten("flat", y);
  EXPECT_TRUE(b.Output("flat", flat).ok());
  trial.MeanSquaredLoss(flat);
  return trial;
}

std::vector<NormCase> NormCases() {
  std::vector<NormCase> cases;
  for (const int64_t batch : {37, 16, 5, 1}) {  // in this order the largest image is of a small batch where cases are few
    for (const NormCase& c : std::vector<NormCase>{
             {.size = 1, .width = 1, .channels = 3, .filters = 5},
             {.size = 6, .width = 5, .channels = 6, .filters = 31, .bias = true},
             {.size = 19, .width = 17, .channels = 6, .filters = 4, .add = true},
             {.size = 9, .width = 7, .channels = 3, .filters = 6, .kernel = 3, .bias = true},
             {.size = 9, .width = 8, .channels = 6, .filters = 8, .kernel = 3, .stride = 2, .add = true},
             {.size = 7, .width = 8, .channels = 16, .filters = 16, .kernel = 3, .add = true},
             {.size = 5, .width = 70, .channels = 32, .filters = 32, .kernel = 3},
             {.size = 3, .width = 300, .channels = 2, .filters = 2},
         }) {
      cases.push_back(c);
      cases.back().batch = batch;
    }
  }
  return FewIfSlow(cases);
}

std::string NormText(const NormCase& c) {
  return testing::PrintToString(std::vector<int64_t>{c.batch, c.size, c.width, c.channels, c.filters, c.kernel});
}

bool Gathers(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    const auto* norm = std::get_if<BatchNormOp>(&node.op);
    return norm != nullptr && norm->moments;
  });
}

class GatherMomentsTest : public testing::TestWithParam<std::string> {
 protected:
  static TrialResult OnCpu(const Trial& trial, int threads, Precision precision, bool training = true) {
    const auto backend = MakeCpuBackend({.threads = threads, .isa = GetParam(), .precision = precision});
    EXPECT_TRUE(backend.ok()) << backend.status();
    auto result = trial.Run(**backend, /*fuse=*/true, {.training = training});
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }

  static void ExpectAgreement(const Trial& trial, double tolerance, Precision precision = Precision::kFloat32, bool training = true) {
    const auto expected = trial.Run(*MakeReferenceBackend(DType::kF64, precision), /*fuse=*/false, {.training = training});
    ASSERT_TRUE(expected.ok()) << expected.status();
    const TrialResult one = OnCpu(trial, 1, precision, training);
    EXPECT_LT(LargestDifference(one, *expected), tolerance);
    for (const int threads : {2, 7}) {
      EXPECT_EQ(LargestDifference(OnCpu(trial, threads, precision, training), one), 0.0) << threads << " threads";
    }
  }
};

TEST_P(GatherMomentsTest, TrainingAgrees) {
  for (const NormCase& c : NormCases()) {
    SCOPED_TRACE(NormText(c));
    ExpectAgreement(NormNetwork(c), 2e-4);
  }
}

TEST_P(GatherMomentsTest, StepsThatDoNotTrainTakeTheMovingStatistics) {
  ExpectAgreement(NormNetwork({.batch = 21, .epsilon = 2.0f}), 2e-5, Precision::kFloat32, /*training=*/false);
  ExpectAgreement(NormNetwork({.batch = 5, .channels = 32, .epsilon = 2.0f}), 2e-5, Precision::kFloat32, /*training=*/false);
}

// The sums of squares of such values would lose the variance to rounding.
TEST_P(GatherMomentsTest, MeansFarFromZeroCostNoPrecision) {
  for (const NormCase& c : {NormCase{.size = 9, .width = 9, .channels = 6, .filters = 6, .bias = true},
                            NormCase{.size = 9, .width = 9, .channels = 16, .filters = 16, .kernel = 3, .bias = true}}) {
    NormCase many = c;
    many.batch = 37;
    SCOPED_TRACE(NormText(many));
    const Trial trial = NormNetwork(many, 2000.0f);
    const auto expected = trial.Run(*MakeReferenceBackend(DType::kF64), /*fuse=*/false);
    ASSERT_TRUE(expected.ok()) << expected.status();
    const TrialResult found = OnCpu(trial, 2, Precision::kFloat32);
    const auto& specs = trial.builder().graph().parameters();
    const auto key = std::ranges::find(specs, "norm/variance", &ParameterSpec::name) - specs.begin();
    for (int64_t i = 0; i < many.filters; ++i) {
      const float wanted = expected->grads.values(static_cast<int>(key))[i];
      EXPECT_NEAR(found.grads.values(static_cast<int>(key))[i], wanted, 2e-4f * std::max(1.0f, std::abs(wanted)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EachInstructionSet, GatherMomentsTest, testing::ValuesIn(RunnableNames()),
                         [](const auto& info) { return info.param; });

class GatherMomentsInBf16Test : public GatherMomentsTest {};

TEST_P(GatherMomentsInBf16Test, AgreesToTheRoundingOfItsValues) {
  for (NormCase c : NormCases()) {
    if (c.batch * c.size * c.width < 16) continue;  // few values: a rounding moves their variance
    c.epsilon = 0.1f;
    SCOPED_TRACE(NormText(c));
    ExpectAgreement(NormNetwork(c), 1.0 / 16, Precision::kBfloat16);
  }
}

INSTANTIATE_TEST_SUITE_P(EachInstructionSet, GatherMomentsInBf16Test, testing::ValuesIn(RunnableBf16Names()),
                         [](const auto& info) { return info.param; });

TEST(GatheredMomentsTest, OnlyTrainingGathersAndOnlyBehindConvolutionsWithoutAPool) {
  EXPECT_TRUE(Gathers(GatherMoments(NormNetwork({}).builder().graph())));

  Trial evaluation;
  const Value x = evaluation.Input("x", {3, 4, 4, 2});
  const Value y = NormLayer(evaluation, "norm", NormedConv(evaluation, "conv", x, {}, 1), 1.0f);
  ASSERT_TRUE(evaluation.builder().Output("y", y).ok());
  EXPECT_FALSE(Gathers(GatherMoments(evaluation.builder().graph())));

  Trial dense;
  const Value z = *dense.builder().Dense("dense", dense.Input("x", {3, 4}), dense.Parameter("kernel", {4, 4}));
  dense.MeanSquaredLoss(NormLayer(dense, "norm", z, 1.0f));
  EXPECT_FALSE(Gathers(GatherMoments(dense.builder().graph())));
}

TEST(GatheredMomentsTest, TwoNormalisationsShareTheMomentsOfOneConvolution) {
  Trial trial;
  GraphBuilder& b = trial.builder();
  const Value conv = NormedConv(trial, "conv", trial.Input("x", {3, 4, 4, 2}), {}, 1);
  const Value y = *b.Add("sum", std::array{NormLayer(trial, "norm1", conv, 1.0f), NormLayer(trial, "norm2", conv, 2.0f)});
  trial.MeanSquaredLoss(*b.Flatten("flat", y));
  const Graph gathered = GatherMoments(b.graph());
  EXPECT_EQ(gathered.node(gathered.Find("conv")).outputs.size(), 3);
  EXPECT_TRUE(std::get<BatchNormOp>(gathered.node(gathered.Find("norm1")).op).moments);
  EXPECT_TRUE(std::get<BatchNormOp>(gathered.node(gathered.Find("norm2")).op).moments);
}

}  // namespace
}  // namespace trainyard::engine
