// A convolution whose pool's gradient is made in its weights' gradient agrees with the reference
// backend, which makes it first, on each instruction set.
#include "trainer/backend/cpu/unpool_in_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/cpu/lay_out.h"
#include "trainer/backend/cpu/test_kernels.h"
#include "trainer/backend/narrow_values.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"
#include "trainer/ops/fuse.h"

namespace trainyard::engine {
namespace {

struct Images {
  int64_t batch = 16, height = 12, width = 12, channels = 1, filters = 5;
  int32_t kernel = 5, stride = 1;
  Padding padding = Padding::kValid;
  Window pool = {.size = {2, 2}, .stride = {2, 2}};
  Activation activation = Activation::kRelu;
  bool bias = true;
};

// `before`: a convolution of 1x1 stands first, so that a gradient flows to the images of the other.
// `dense`: a dense layer stands last, and values stay small.
Trial Pooled(const Images& images, bool before = false, bool dense = false) {
  Trial trial;
  GraphBuilder& b = trial.builder();
  Value x = trial.Input("images", {images.batch, images.height, images.width, images.channels});
  if (before) x = *b.Conv2d("before", x, trial.Parameter("before/kernel", {1, 1, images.channels, images.channels}));
  const Value kernel = trial.Parameter("kernel", {images.kernel, images.kernel, images.channels, images.filters});
  if (dense) trial.Scale(1.0f / static_cast<float>(images.kernel * images.channels));
  Value y = *b.Conv2d("conv", x, kernel, {images.stride, images.stride}, images.padding);
  if (images.bias) y = *b.Bias("biased", y, trial.Parameter("bias", {images.filters}));
  y = *b.MaxPool("pool", y, images.pool);
  if (images.activation != Activation::kIdentity) y = *b.Activate("active", y, images.activation);
  if (dense) {
    y = *b.Flatten("flat", y);
    y = *b.Dense("dense", y, trial.Parameter("dense/kernel", {b.spec(y).shape[1], 3}));
    trial.Scale(0.1f);
  }
  trial.MeanSquaredLoss(y);
  return trial;
}

bool IsMarked(Trial& trial) {
  const Graph graph = UnpoolInWeights(LayOut(FuseEpilogues(trial.builder().graph())), Precision::kFloat32);
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    const auto* const conv = std::get_if<Conv2dOp>(&node.op);
    return conv != nullptr && conv->epilogue.unpool_in_weights;
  });
}

class UnpoolInWeightsTest : public testing::TestWithParam<std::string> {
 protected:
  static TrialResult OnCpu(const Trial& trial, int threads) {
    const auto backend = MakeCpuBackend({.threads = threads, .isa = GetParam()});
    EXPECT_TRUE(backend.ok()) << backend.status();
    auto result = trial.Run(**backend, /*fuse=*/true);
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }

  static void ExpectAgreement(const Images& images, bool before = false) {
    SCOPED_TRACE(testing::Message() << images.batch << " x " << images.height << " x " << images.width << " x " << images.channels << ", "
                                    << images.filters << " of " << images.kernel << " by " << images.stride);
    Trial trial = Pooled(images, before);
    ASSERT_TRUE(IsMarked(trial));
    const auto expected = trial.Run(*MakeReferenceBackend(DType::kF64), /*fuse=*/false);
    ASSERT_TRUE(expected.ok()) << expected.status();
    const TrialResult one = OnCpu(trial, 1);
    EXPECT_LT(LargestDifference(one, *expected), 2e-5);
    for (const int threads : {2, 3, 7}) EXPECT_EQ(LargestDifference(OnCpu(trial, threads), one), 0.0) << threads << " threads";
  }
};

TEST_P(UnpoolInWeightsTest, AgreesOverBatchesAndFilters) {
  for (const int64_t batch : {1, 5, 16, 17, 70, 128}) {
    for (const int64_t filters : {1, 3, 32}) ExpectAgreement({.batch = batch, .filters = filters, .bias = filters != 3});
  }
}

TEST_P(UnpoolInWeightsTest, AgreesWhereRowsAndColumnsAreLeftOver) {
  for (const int64_t height : {6, 7, 15}) {
    for (const int64_t width : {6, 9, 16}) ExpectAgreement({.batch = 20, .height = height, .width = width, .kernel = 3});
  }
}

TEST_P(UnpoolInWeightsTest, AgreesOverPaddingsStridesPoolsAndActivations) {
  int index = 0;
  for (const Padding padding : {Padding::kValid, Padding::kSame}) {
    for (const int32_t stride : {1, 2, 3}) {
      for (const auto& size : {std::array<int32_t, 2>{2, 2}, {3, 1}, {1, 2}}) {
        const auto activation = std::array{Activation::kIdentity, Activation::kTanh, Activation::kRelu}[index++ % 3];
        ExpectAgreement({.batch = 18,
                         .height = 17,
                         .width = 14,
                         .channels = 3,
                         .stride = stride,
                         .padding = padding,
                         .pool = {.size = size, .stride = size},
                         .activation = activation});
      }
    }
  }
}

// Images whose rows are bands of their own, and of which a band has several.
TEST_P(UnpoolInWeightsTest, AgreesOverManyBands) {
  ExpectAgreement({.batch = 17, .height = 40, .width = 70, .channels = 2, .filters = 30, .kernel = 3, .padding = Padding::kSame});
  ExpectAgreement({.batch = 3, .height = 90, .width = 200, .filters = 20, .kernel = 3});
}

TEST_P(UnpoolInWeightsTest, AgreesWhereAGradientFlowsToTheInput) { ExpectAgreement({.batch = 18, .channels = 2}, /*before=*/true); }

INSTANTIATE_TEST_SUITE_P(EachInstructionSet, UnpoolInWeightsTest, testing::ValuesIn(RunnableNames()),
                         [](const auto& info) { return info.param; });

// In bfloat16: agreement with the reference backend, which rounds the same values.
class UnpoolInBf16WeightsTest : public testing::TestWithParam<std::string> {
 protected:
  static TrialResult OnCpu(const Trial& trial, int threads) {
    const auto backend = MakeCpuBackend({.threads = threads, .isa = GetParam(), .precision = Precision::kBfloat16});
    EXPECT_TRUE(backend.ok()) << backend.status();
    auto result = trial.Run(**backend, /*fuse=*/true);
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }

  static void ExpectAgreement(const Images& images) {
    SCOPED_TRACE(testing::Message() << images.batch << " x " << images.height << " x " << images.width << " x " << images.channels << ", "
                                    << images.filters << " of " << images.kernel << " by " << images.stride);
    const Trial trial = Pooled(images, /*before=*/false, /*dense=*/true);
    const auto expected = trial.Run(*MakeReferenceBackend(DType::kF64, Precision::kBfloat16), /*fuse=*/true);
    ASSERT_TRUE(expected.ok()) << expected.status();
    const TrialResult one = OnCpu(trial, 1);
    for (int key = 0; key < one.grads.size(); ++key) {
      const std::span<const float> found = one.grads.values(key);
      const std::span<const float> wanted = expected->grads.values(key);
      const float largest = std::abs(*std::ranges::max_element(wanted, {}, [](float x) { return std::abs(x); }));
      // A gradient may round to the other neighbour.
      for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], wanted[i], largest / 512) << "parameter " << key << ", element " << i;
    }
    for (const int threads : {2, 5}) EXPECT_EQ(LargestDifference(OnCpu(trial, threads), one), 0.0) << threads << " threads";
  }
};

TEST_P(UnpoolInBf16WeightsTest, AgreesOverBatchesAndFilters) {
  for (const int64_t batch : {1, 16, 17, 33}) {
    for (const int64_t filters : {2, 34})
      ExpectAgreement({.batch = batch, .channels = filters / 8 + 1, .filters = filters, .bias = batch != 16});
  }
}

TEST_P(UnpoolInBf16WeightsTest, AgreesWhereRowsAndColumnsAreLeftOver) {
  for (const int64_t height : {6, 7, 15}) ExpectAgreement({.batch = 20, .height = height, .width = height + 2, .filters = 6, .kernel = 3});
}

TEST_P(UnpoolInBf16WeightsTest, AgreesOverPaddingsStridesPoolsAndActivations) {
  int index = 0;
  for (const Padding padding : {Padding::kValid, Padding::kSame}) {
    for (const auto& size : {std::array<int32_t, 2>{2, 2}, {3, 1}, {1, 2}}) {
      ExpectAgreement({.batch = 18,
                       .height = 17,
                       .width = 14,
                       .channels = 3,
                       .filters = 4,
                       .stride = 1 + index % 2,
                       .padding = padding,
                       .pool = {.size = size, .stride = size},
                       .activation = std::array{Activation::kIdentity, Activation::kTanh, Activation::kRelu}[index % 3]});
      ++index;
    }
  }
}

// More rows than one chunk of both operands has.
TEST_P(UnpoolInBf16WeightsTest, AgreesOverManyChunks) {
  ExpectAgreement(
      {.batch = 17, .height = 40, .width = 70, .channels = 2, .filters = 30, .kernel = 3, .pool = {.size = {3, 2}, .stride = {3, 2}}});
}

INSTANTIATE_TEST_SUITE_P(EachInstructionSet, UnpoolInBf16WeightsTest, testing::ValuesIn(RunnableBf16Names()),
                         [](const auto& info) { return info.param; });

TEST(UnpoolInWeights, InBfloat16OnlyNarrowPooledValuesAreMarked) {
  for (const int64_t filters : {6, 7}) {
    Trial trial = Pooled({.filters = filters}, /*before=*/false, /*dense=*/true);
    const Graph narrowed = NarrowValues(LayOut(FuseEpilogues(trial.builder().graph())), NarrowReach::kDense);
    const Graph graph = UnpoolInWeights(narrowed, Precision::kBfloat16);
    for (const Node& node : graph.nodes()) {
      if (const auto* const conv = std::get_if<Conv2dOp>(&node.op)) {
        EXPECT_EQ(conv->epilogue.unpool_in_weights, filters == 6);
      }
    }
  }
}

TEST(UnpoolInWeights, WindowsThatDoNotTileTheImageAreLeftAlone) {
  for (const Window& pool :
       {Window{.size = {3, 3}, .stride = {2, 2}}, Window{.size = {2, 2}, .stride = {2, 2}, .padding = Padding::kSame}}) {
    Trial trial = Pooled({.pool = pool});
    EXPECT_FALSE(IsMarked(trial));
  }
}

TEST(UnpoolInWeights, ConvolutionsOfManyChannelsAreLeftAlone) {
  Trial winograd = Pooled({.channels = 16, .filters = 32, .kernel = 3});
  EXPECT_FALSE(IsMarked(winograd));
  Trial rows = Pooled({.channels = 8, .filters = 32, .kernel = 4});
  EXPECT_FALSE(IsMarked(rows));
}

}  // namespace
}  // namespace trainyard::engine
