// Graphs for inference on cpu agree with the reference backend on each instruction set.
#include "trainer/backend/cpu/inference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "trainer/backend/cpu/conv_geometry.h"
#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/cpu/inference_winograd.h"
#include "trainer/backend/cpu/test_kernels.h"
#include "trainer/backend/executor.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"
#include "trainer/base/check.h"
#include "trainer/base/large_pages.h"
#include "trainer/ops/recurrent.h"

namespace trainyard::engine {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;

std::unique_ptr<Backend> MakeCpu(const std::string& isa, int threads = 1) {
  auto backend = MakeCpuBackend({.threads = threads, .isa = isa});
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

// The output "y" of a trial whose graph is run for inference, or as any graph.
std::vector<double> Run(Trial& trial, Backend& backend, bool inference) {
  const ParameterSet parameters = trial.parameters();
  auto executor = Executor::Create(trial.builder().graph(), backend, {.inference = inference ? &parameters : nullptr});
  EXPECT_TRUE(executor.ok()) << executor.status();
  EXPECT_TRUE((*executor)->Run({.training = false}, trial.feeds(), parameters, nullptr, nullptr).ok());
  const Graph& graph = (*executor)->graph();
  const ValueSpec& spec = graph.spec(graph.outputs().find("y")->second);
  std::vector<double> values(spec.shape.elements());
  EXPECT_TRUE((*executor)->Fetch("y", {DType::kF64, spec.shape, values.data()}).ok());
  return values;
}

double LargestDifference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    largest = std::max(largest, std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i])));
  return largest;
}

void ExpectAgreement(Trial& trial, const std::string& what) {
  const std::unique_ptr<Backend> reference = MakeReferenceBackend(DType::kF64);
  const std::vector<double> expected = Run(trial, *reference, /*inference=*/false);
  for (const std::string& isa : RunnableNames()) {
    for (const int threads : {1, 3}) {
      EXPECT_LT(LargestDifference(Run(trial, *MakeCpu(isa, threads), /*inference=*/true), expected), 2e-5)
          << what << " by " << isa << " on " << threads << " threads";
    }
  }
}

Value Normalise(Trial& trial, const std::string& name, Value x) {
  const Shape channels{trial.builder().spec(x).shape[-1]};
  const Value gamma = trial.Parameter(name + "/gamma", channels);
  const Value beta = trial.Parameter(name + "/beta", channels);
  const Value mean = trial.Parameter(name + "/mean", channels, false);
  const Value variance = trial.Parameter(name + "/variance", channels, false);  // from -1 to 1
  return *trial.builder().BatchNorm(name, x, {gamma, beta, mean, variance}, 0.9f, /*epsilon=*/1.5f);
}

// Random layers that images pass: all of what conv2d, pools and batch normalisation may be.
std::string RandomImages(Trial& trial, uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<uint32_t>(limit)); };
  GraphBuilder& builder = trial.builder();
  const Shape shape{1 + below(9), 3 + below(11), 3 + below(11), seed % 3 == 0 ? 1 : 1 + below(20)};
  std::string what = shape.ToString();
  Value y = trial.Input("x", shape);
  for (int layer = 0; layer < 3; ++layer) {
    const std::string name = "layer" + std::to_string(layer);
    const Shape at = builder.spec(y).shape;
    Window window{
        .size = {1 + below(static_cast<int>(std::min<int64_t>(4, at[1]))), 1 + below(static_cast<int>(std::min<int64_t>(4, at[2])))},
        .stride = {1 + below(2), 1 + below(2)},
        .padding = below(2) == 0 ? Padding::kSame : Padding::kValid};
    if (below(3) == 0) window = {.size = {3, 3}, .padding = Padding::kSame};
    const int outputs = below(2) == 0 ? 16 * (1 + below(3)) : 1 + below(50);
    what += " conv " + std::to_string(outputs);
    y = *builder.Conv2d(name, y, trial.Parameter(name + "/kernel", {window.size[0], window.size[1], at[3], outputs}), window.stride,
                        window.padding);
    trial.Scale(0.3f);
    if (below(2) == 0) y = *builder.Bias(name + "/bias_add", y, trial.Parameter(name + "/bias", {outputs}));
    if (below(2) == 0) y = Normalise(trial, name + "/norm", y);
    if (below(2) == 0) {
      const Shape image = builder.spec(y).shape;
      const Value branch = *builder.Conv2d(name + "/branch", y, trial.Parameter(name + "/branch_kernel", {1, 1, image[3], image[3]}));
      trial.Scale(0.3f);
      const std::vector<Value> both = below(2) == 0 ? std::vector{y, branch} : std::vector{branch, y};
      y = *builder.Add(name + "/add", both);
    }
    constexpr Activation kActivations[] = {Activation::kIdentity, Activation::kRelu, Activation::kTanh, Activation::kSigmoid};
    if (const Activation activation = kActivations[below(4)]; activation != Activation::kIdentity) {
      y = *builder.Activate(name + "/activation", y, activation);
    }
    const Shape image = builder.spec(y).shape;
    const Window pool{.size = {std::min<int>(2, static_cast<int>(image[1])), std::min<int>(2, static_cast<int>(image[2]))},
                      .stride = {1 + below(2), 1 + below(2)},
                      .padding = below(2) == 0 ? Padding::kSame : Padding::kValid};
    if (const int kind = below(3); kind > 0)
      y = kind == 1 ? *builder.MaxPool(name + "/pool", y, pool) : *builder.AvgPool(name + "/pool", y, pool);
  }
  y = *builder.Flatten("flat", y);
  y = *builder.Dense("dense", y, trial.Parameter("dense/kernel", {builder.spec(y).shape[1], 11}));
  trial.Scale(0.1f);
  TY_CHECK(builder.Output("y", y).ok());
  return what;
}

TEST(InferenceTest, RandomNetworksOfImagesGiveTheNumbersOfTheReference) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    Trial trial(seed + 1);
    const std::string what = RandomImages(trial, seed);
    ExpectAgreement(trial, "seed " + std::to_string(seed) + " " + what);
  }
}

TEST(InferenceTest, WindowsOfThreeByThreeGiveTheNumbersOfTheReferenceWithManyChannels) {
  // Tiles of 2 x 2 results, then of 4 x 4.
  for (const Shape& shape : {Shape{1, 4, 4, 32}, Shape{2, 9, 6, 16}, Shape{3, 7, 9, 48}, Shape{2, 33, 5, 64}, Shape{1, 12, 12, 128},
                             Shape{2, 18, 13, 32}, Shape{3, 16, 31, 16}, Shape{1, 64, 20, 48}}) {
    for (const Padding padding : {Padding::kSame, Padding::kValid}) {
      if (padding == Padding::kValid && shape[1] < 6) continue;
      for (const bool pool : {false, true}) {
        Trial trial;
        GraphBuilder& builder = trial.builder();
        const Value x = trial.Input("x", shape);
        Value y = *builder.Conv2d("conv", x, trial.Parameter("kernel", {3, 3, shape[3], 80}), {1, 1}, padding);
        trial.Scale(0.1f);
        y = *builder.Bias("bias_add", y, trial.Parameter("bias", {80}));
        if (pool) y = *builder.MaxPool("pool", y, {.size = {2, 2}, .stride = {2, 2}});
        y = *builder.Activate("relu", y, Activation::kRelu);
        TY_CHECK(builder.Output("y", y).ok());
        ExpectAgreement(trial, shape.ToString() + (pool ? " pooled" : ""));
      }
    }
  }
}

TEST(InferenceTest, AWinogradTileIsLargeWhereItCoversTheImageAndHasCompanyAndTheBatchIsNoMatter) {
  for (const int64_t samples : {1, 1000}) {
    const auto tile_of = [&](int64_t height, int64_t width, int64_t channels = 16) {
      return WinogradTile(
          *GeometryOf({.size = {3, 3}, .padding = Padding::kSame}, {samples, height, width, channels}, {3, 3, channels, 16}));
    };
    EXPECT_EQ(tile_of(16, 16), 4);
    EXPECT_EQ(tile_of(12, 12), 4);
    EXPECT_EQ(tile_of(224, 223), 4);
    EXPECT_EQ(tile_of(8, 8), 2);    // 4 tiles
    EXPECT_EQ(tile_of(10, 10), 2);  // 9 tiles of 4 x 4 cover 144 pixels
    EXPECT_EQ(tile_of(17, 17), 4);
    EXPECT_EQ(tile_of(4, 4), 2);
    EXPECT_EQ(tile_of(3, 16), 0);
    EXPECT_EQ(tile_of(16, 16, 17), 0);
  }
}

TEST(InferenceTest, TheBatchSizeDoesNotChangeABit) {
  for (const std::string& isa : RunnableNames()) {
    std::vector<double> alone;
    for (const int64_t batch : {1, 2, 7, 33}) {
      GraphBuilder builder;
      ParameterSet parameters;
      const Value x = *builder.Input("x", {batch, 9, 9, 3});
      Value y = *builder.Conv2d("conv", x, *builder.Parameter("kernel", {3, 3, 3, 20}), {1, 1}, Padding::kSame);
      y = *builder.Flatten("flat", y);
      y = *builder.Dense("dense", y, *builder.Parameter("dense/kernel", {9 * 9 * 20, 70}));
      TY_CHECK(builder.Output("y", y).ok());
      parameters = ParameterSet({builder.graph().parameters().begin(), builder.graph().parameters().end()});
      std::mt19937 random(3);
      const auto fill = [&](auto values) {
        for (float& value : values) value = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
      };
      for (int key = 0; key < parameters.size(); ++key) fill(parameters.values(key));
      std::vector<float> image(9 * 9 * 3);
      fill(std::span(image));
      std::vector<float> images;
      for (int64_t i = 0; i < batch; ++i) images.insert(images.end(), image.begin(), image.end());
      const std::unique_ptr<Backend> backend = MakeCpu(isa);
      auto executor = Executor::Create(builder.graph(), *backend, {.inference = &parameters});
      ASSERT_TRUE(executor.ok()) << executor.status();
      const std::vector<Feed> feeds = {{"x", {DType::kF32, Shape{batch, 9, 9, 3}, images.data()}}};
      ASSERT_TRUE((*executor)->Run({.training = false}, feeds, parameters, nullptr, nullptr).ok());
      std::vector<double> found(static_cast<size_t>(batch) * 70);
      ASSERT_TRUE((*executor)->Fetch("y", {DType::kF64, Shape{batch, 70}, found.data()}).ok());
      if (alone.empty()) alone = found;
      for (int64_t i = 0; i < batch; ++i) {
        EXPECT_EQ(std::vector(found.begin() + i * 70, found.begin() + (i + 1) * 70), alone) << isa << ", example " << i << " of " << batch;
      }
    }
  }
}

TEST(InferenceTest, RecurrentLayersGiveTheNumbersOfTheReference) {
  for (const Cell cell : {Cell::kLstm, Cell::kGru, Cell::kSimpleRnn}) {
    for (const int64_t batch : {1, 3, 9}) {
      Trial trial(static_cast<uint64_t>(batch));
      GraphBuilder& builder = trial.builder();
      const int64_t width = GateCount(cell) * 7;
      const Value x = trial.Input("x", {batch, 4, 5});
      Value z = *builder.Dense("inputs", x, trial.Parameter("kernel", {5, width}));
      z = *builder.Bias("bias_add", z, trial.Parameter("bias", {width}));
      const Value y = *builder.Recurrent("cell", {.cell = cell}, {z, trial.Parameter("recurrent_kernel", {7, width})});
      TY_CHECK(builder.Output("y", y).ok());
      ExpectAgreement(trial, std::string(CellName(cell)) + " of " + std::to_string(batch));
    }
  }
}

// The nodes that a graph for inference has, "op" each.
std::vector<std::string> OpsOf(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes()) {
    if (!IsSource(node.op)) ops.push_back(std::string(OpName(node.op)) + " " + OpText(node.op));
  }
  return ops;
}

TEST(InferenceTest, NormalisationSumAndActivationJoinTheConvolutionBefore) {
  Trial trial;
  GraphBuilder& builder = trial.builder();
  const Value x = trial.Input("x", {2, 4, 4, 3});
  Value y = *builder.Conv2d("conv", x, trial.Parameter("kernel", {1, 1, 3, 3}));
  y = Normalise(trial, "norm", y);
  y = *builder.Activate("relu", *builder.Add("add", std::vector{x, y}), Activation::kRelu);
  TY_CHECK(builder.Output("y", *builder.Dropout("dropout", y, 0.5f)).ok());
  EXPECT_THAT(OpsOf(RewriteForInference(builder.graph())),
              ElementsAre("Conv2d 1x1 stride 1x1 valid + batch-norm + add + relu", "Identity "));
}

TEST(InferenceTest, AValueThatOthersReadStaysAsItIs) {
  Trial trial;
  GraphBuilder& builder = trial.builder();
  const Value conv = *builder.Conv2d("conv", trial.Input("x", {2, 4, 4, 3}), trial.Parameter("kernel", {1, 1, 3, 3}));
  const Value norm = Normalise(trial, "norm", conv);
  TY_CHECK(builder.Output("y", *builder.Add("add", std::vector{conv, norm})).ok());
  EXPECT_THAT(OpsOf(RewriteForInference(builder.graph())),
              ElementsAre("Conv2d 1x1 stride 1x1 valid", "BatchNorm momentum 0.9 epsilon 1.5", "Add "));
}

// x, normalised, in a 1x1 convolution, to which x is added: a block of ResNet v2.
Value Preactivated(Trial& trial, Value x) {
  GraphBuilder& builder = trial.builder();
  const int64_t channels = builder.spec(x).shape[-1];
  const Value norm = *builder.Activate("relu", Normalise(trial, "norm", x), Activation::kRelu);
  const Value conv = *builder.Conv2d("conv", norm, trial.Parameter("kernel", {1, 1, channels, channels}));
  trial.Scale(0.3f);
  return *builder.Add("add", std::vector{x, conv});
}

TEST(InferenceTest, NormalisationBeforeAPointwiseConvolutionJoinsIt) {
  Trial trial;
  const Value x = trial.Input("x", {2, 4, 4, 3});
  const Value norm = Normalise(trial, "norm", x);
  const Value y = *trial.builder().Conv2d("conv", norm, trial.Parameter("kernel", {1, 1, 3, 3}));
  TY_CHECK(trial.builder().Output("y", *trial.builder().Add("add", std::vector{x, y})).ok());
  EXPECT_THAT(OpsOf(RewriteForInference(trial.builder().graph())), ElementsAre("Conv2d 1x1 stride 1x1 valid after batch-norm + add"));
}

TEST(InferenceTest, NormalisationStaysANodeBeforeAnyOtherConvolutionAndWhereItIsAnOutput) {
  for (const bool output : {false, true}) {
    Trial trial;
    const Value norm = Normalise(trial, "norm", trial.Input("x", {2, 4, 4, 3}));
    const Window window = output ? Window{} : Window{.size = {2, 2}, .stride = {2, 2}};
    const Value y = *trial.builder().Conv2d("conv", norm, trial.Parameter("kernel", {window.size[0], window.size[1], 3, 3}), window.stride);
    TY_CHECK(trial.builder().Output("y", y).ok());
    if (output) TY_CHECK(trial.builder().Output("norm", norm).ok());
    EXPECT_THAT(OpsOf(RewriteForInference(trial.builder().graph())), SizeIs(2));
  }
}

TEST(InferenceTest, NormalisationBeforeAPointwiseConvolutionGivesTheNumbersOfTheReference) {
  // Rows in one part and in several.
  for (const Shape& shape : {Shape{1, 1, 1, 5}, Shape{3, 5, 7, 20}, Shape{2, 16, 16, 64}, Shape{1, 1, 2, 600}}) {
    Trial trial;
    TY_CHECK(trial.builder().Output("y", Preactivated(trial, trial.Input("x", shape))).ok());
    ExpectAgreement(trial, shape.ToString());
  }
}

TEST(InferenceTest, ExecutorsOfTheSameParametersShareWhatIsMadeOfThem) {
  WeightStore store;
  const float parameters[2] = {};
  int made = 0;
  const auto get = [&](const float* source) {
    return store.Get({{source}, "packed"}, 16, [&](float* memory) { memory[0] = static_cast<float>(++made); });
  };
  auto first = get(parameters);
  EXPECT_EQ(get(parameters), first);
  const auto other = get(parameters + 1);
  EXPECT_NE(other, first);
  EXPECT_EQ(made, 2);
  first.reset();  // the last holder: the parameters may change now
  EXPECT_EQ(*get(parameters), 3);
}

TEST(InferenceTest, WeightsLieSideBySideInLargePages) {
  WeightStore store;
  const float parameters[3] = {};
  const auto get = [&](const float* source, size_t floats) {
    return store.Get({{source}, "packed"}, floats, [&](float* memory) {
      EXPECT_THAT(std::vector<float>(memory, memory + floats), Each(0.0f));
      std::fill_n(memory, floats, 1.0f);
    });
  };
  const auto first = get(parameters, 100);
  const auto second = get(parameters + 1, 2000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first.get()) % kLargePage, 0);
  EXPECT_EQ(second.get(), first.get() + 112);
  // More than is left: a place of its own, where the next lies too.
  const size_t many = 10 * kLargePage / sizeof(float);
  const auto third = get(parameters + 2, many);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(third.get()) % kLargePage, 0);
  EXPECT_THAT(std::vector<float>(first.get(), first.get() + 100), Each(1.0f));
}

}  // namespace
}  // namespace trainyard::engine
