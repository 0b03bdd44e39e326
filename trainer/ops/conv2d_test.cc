#include "trainer/ops/conv2d.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"
#include "trainer/ops/rules.h"

namespace trainyard::engine {
namespace {

struct ConvCase {
  const char* name;
  Shape x;
  Shape kernel;
  std::array<int32_t, 2> stride;
  Padding padding;
  Shape y;
  friend void PrintTo(const ConvCase& c, std::ostream* out) { *out << c.name; }
};

class Conv2dShapes : public testing::TestWithParam<ConvCase> {};

TEST_P(Conv2dShapes, ShapeIsInferredAndGradientsEqualNumericDifferences) {
  const ConvCase& c = GetParam();
  Trial trial;
  const Value x = trial.Input("x", c.x);
  const auto y = trial.builder().Conv2d("conv", x, trial.Parameter("conv/kernel", c.kernel), c.stride, c.padding);
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ(trial.builder().spec(*y).shape, c.y);
  trial.MeanSquaredLoss(*y);
  const auto error = trial.CheckGradients({.inputs = {"x"}});
  ASSERT_TRUE(error.ok()) << error.status();
  EXPECT_LT(error->difference, 1e-5) << error->where;
}

INSTANTIATE_TEST_SUITE_P(Windows, Conv2dShapes,
                         testing::Values(ConvCase{"Valid", {2, 5, 6, 3}, {3, 3, 3, 2}, {1, 1}, Padding::kValid, {2, 3, 4, 2}},
                                         ConvCase{"Same", {2, 4, 5, 2}, {3, 3, 2, 3}, {1, 1}, Padding::kSame, {2, 4, 5, 3}},
                                         ConvCase{"SameWithEvenKernel", {1, 4, 5, 2}, {2, 4, 2, 3}, {1, 1}, Padding::kSame, {1, 4, 5, 3}},
                                         ConvCase{"SameWithStride", {2, 5, 6, 1}, {3, 3, 1, 2}, {2, 2}, Padding::kSame, {2, 3, 3, 2}},
                                         ConvCase{"ValidWithStride", {2, 7, 6, 2}, {3, 2, 2, 2}, {2, 3}, Padding::kValid, {2, 3, 2, 2}},
                                         ConvCase{"OneByOne", {2, 3, 3, 4}, {1, 1, 4, 2}, {1, 1}, Padding::kValid, {2, 3, 3, 2}},
                                         ConvCase{"StrideBeyondKernel", {1, 5, 5, 1}, {1, 1, 1, 2}, {2, 2}, Padding::kValid, {1, 3, 3, 2}}),
                         [](const auto& info) { return info.param.name; });

TEST(Conv2d, ComputesACrossCorrelation) {
  GraphBuilder builder;
  const Value x = *builder.Input("x", {1, 2, 3, 1});
  const Value y = *builder.Conv2d("conv", x, *builder.Parameter("conv/kernel", {2, 2, 1, 1}));
  ASSERT_TRUE(builder.Output("y", y).ok());
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const auto executor = Executor::Create(std::move(builder).Build(), *backend);
  ASSERT_TRUE(executor.ok()) << executor.status();
  ParameterSet params({{"conv/kernel", {2, 2, 1, 1}}});
  std::ranges::copy(std::array{1.0f, 10.0f, 100.0f, 1000.0f}, params.values(0).begin());
  std::array<float, 6> pixels = {1, 2, 3, 4, 5, 6};
  const Feed feed{"x", {DType::kF32, {1, 2, 3, 1}, pixels.data()}};
  ASSERT_TRUE((*executor)->Run({}, std::span(&feed, 1), params, nullptr, nullptr).ok());
  std::array<float, 2> result;
  ASSERT_TRUE((*executor)->Fetch("y", {DType::kF32, {1, 1, 2, 1}, result.data()}).ok());
  EXPECT_THAT(result, testing::ElementsAre(1 + 20 + 400 + 5000, 2 + 30 + 500 + 6000));
}

TEST(Conv2d, WindowLargerThanTheImageIsAnErrorNamingBoth) {
  Trial trial;
  const Value x = trial.Input("x", {1, 4, 4, 1});
  const auto y = trial.builder().Conv2d("conv1", x, trial.Parameter("conv1/kernel", {5, 5, 1, 20}));
  EXPECT_EQ(y.status().message(), "layer 'conv1': window 5x5 does not fit into the input of 4x4; use a smaller window or padding 'same'");
}

TEST(Conv2d, FlatInputIsAnErrorSayingWhatImagesLookLike) {
  Trial trial;
  const Value x = trial.Input("x", {128, 784});
  const auto y = trial.builder().Conv2d("conv1", x, trial.Parameter("conv1/kernel", {5, 5, 1, 20}));
  EXPECT_EQ(y.status().message(), "layer 'conv1': input has shape [128, 784], expected images [batch, height, width, channels]");
}

TEST(Conv2d, OtherNumberOfChannelsIsAnError) {
  Trial trial;
  const Value x = trial.Input("x", {1, 8, 8, 3});
  const auto y = trial.builder().Conv2d("conv1", x, trial.Parameter("conv1/kernel", {5, 5, 1, 20}));
  EXPECT_EQ(y.status().message(),
            "layer 'conv1': kernel has shape [5, 5, 1, 20], expected [height, width, input channels, filters] [5, 5, 3, 20]");
}

TEST(Conv2d, StrideOfZeroIsAnError) {
  Trial trial;
  const Value x = trial.Input("x", {1, 8, 8, 1});
  const auto y = trial.builder().Conv2d("conv1", x, trial.Parameter("conv1/kernel", {5, 5, 1, 20}), {0, 1});
  EXPECT_EQ(y.status().message(), "layer 'conv1': window 5x5 with stride 0x1: size and stride must be at least 1");
}

TEST(Conv2d, CountsTwoFlopsForAMultiplyAdd) {
  Trial trial;
  const Value y = *trial.builder().Conv2d("conv", trial.Input("x", {2, 28, 28, 1}), trial.Parameter("conv/kernel", {5, 5, 1, 20}));
  EXPECT_EQ(Flops(trial.builder().graph(), y.node), 2 * 2 * 24 * 24 * 25 * 20);
}

}  // namespace
}  // namespace trainyard::engine
