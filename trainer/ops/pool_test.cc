#include "trainer/ops/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"

namespace trainyard::engine {
namespace {

struct PoolCase {
  const char* name;
  Shape x;
  Window window;
  Shape y;
  friend void PrintTo(const PoolCase& c, std::ostream* out) { *out << c.name; }
};

class Pools : public testing::TestWithParam<PoolCase> {
 protected:
  void ExpectShapeAndGradients(Trial& trial, absl::StatusOr<Value> y) {
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ(trial.builder().spec(*y).shape, GetParam().y);
    trial.MeanSquaredLoss(*y);
    const auto error = trial.CheckGradients({.inputs = {"x"}});
    ASSERT_TRUE(error.ok()) << error.status();
    EXPECT_LT(error->difference, 1e-5) << error->where;
  }
};

TEST_P(Pools, MaxShapeIsInferredAndGradientsEqualNumericDifferences) {
  Trial trial;
  const Value x = trial.Input("x", GetParam().x);
  ExpectShapeAndGradients(trial, trial.builder().MaxPool("pool", x, GetParam().window));
}

TEST_P(Pools, MeanShapeIsInferredAndGradientsEqualNumericDifferences) {
  Trial trial;
  const Value x = trial.Input("x", GetParam().x);
  ExpectShapeAndGradients(trial, trial.builder().AvgPool("pool", x, GetParam().window));
}

INSTANTIATE_TEST_SUITE_P(Windows, Pools,
                         testing::Values(PoolCase{"Halves", {2, 4, 6, 3}, {{2, 2}, {2, 2}}, {2, 2, 3, 3}},
                                         PoolCase{"Overlapping", {1, 5, 5, 2}, {{3, 3}, {2, 2}}, {1, 2, 2, 2}},
                                         PoolCase{"DropsTheRest", {1, 5, 5, 2}, {{2, 2}, {2, 2}}, {1, 2, 2, 2}},
                                         PoolCase{"SameKeepsTheRest", {2, 5, 5, 1}, {{2, 2}, {2, 2}, Padding::kSame}, {2, 3, 3, 1}},
                                         PoolCase{"SameOverlapping", {1, 4, 5, 2}, {{3, 3}, {1, 2}, Padding::kSame}, {1, 4, 3, 2}},
                                         PoolCase{"Global", {2, 3, 4, 2}, {{3, 4}, {1, 1}}, {2, 1, 1, 2}}),
                         [](const auto& info) { return info.param.name; });

// Of a row of three pixels, padded to two windows of two.
struct RowMaxima {
  std::array<float, 2> values;
  std::array<uint8_t, 2> places;
};
RowMaxima MaxPoolOfRow(std::array<float, 3> pixels) {
  GraphBuilder builder;
  const Value x = *builder.Input("x", {1, 1, 3, 1});
  const Value y = *builder.MaxPool("pool", x, {{1, 2}, {1, 2}, Padding::kSame});
  EXPECT_TRUE(builder.Output("y", y).ok());
  EXPECT_TRUE(builder.Output("argmax", {y.node, 1}).ok());
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const auto executor = *Executor::Create(std::move(builder).Build(), *backend);
  const Feed feed{"x", {DType::kF32, {1, 1, 3, 1}, pixels.data()}};
  EXPECT_TRUE(executor->Run({}, std::span(&feed, 1), {}, nullptr, nullptr).ok());
  RowMaxima maxima{};
  EXPECT_TRUE(executor->Fetch("y", {DType::kF32, {1, 1, 2, 1}, maxima.values.data()}).ok());
  EXPECT_TRUE(executor->Fetch("argmax", {DType::kU8, {1, 1, 2, 1}, maxima.places.data()}).ok());
  return maxima;
}

TEST(MaxPool, PaddingNeverWinsAndTheFirstOfEqualsDoes) {
  const RowMaxima maxima = MaxPoolOfRow({-2, -2, -7});
  EXPECT_THAT(maxima.values, testing::ElementsAre(-2, -7));
  EXPECT_THAT(maxima.places, testing::ElementsAre(0, 0));
}

TEST(MaxPool, NanWinsWhereverItIsInTheWindow) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const RowMaxima first = MaxPoolOfRow({nan, 5, 1});
  EXPECT_THAT(first.values, testing::ElementsAre(testing::IsNan(), 1));
  EXPECT_THAT(first.places, testing::ElementsAre(0, 0));
  const RowMaxima last = MaxPoolOfRow({5, nan, 1});
  EXPECT_THAT(last.values, testing::ElementsAre(testing::IsNan(), 1));
  EXPECT_THAT(last.places, testing::ElementsAre(1, 0));
}

TEST(MaxPool, WindowThatAByteCannotCountIsAnError) {
  Trial trial;
  const Value x = trial.Input("x", {1, 20, 20, 1});
  EXPECT_EQ(trial.builder().MaxPool("pool1", x, {{17, 16}, {1, 1}}).status().message(),
            "layer 'pool1': max-pool window 17x16 has 272 elements, expected at most 256");
}

TEST(AvgPool, OfAFlatInputIsAnError) {
  Trial trial;
  const Value x = trial.Input("x", {1, 20});
  EXPECT_EQ(trial.builder().AvgPool("pool1", x, {{2, 2}, {2, 2}}).status().message(),
            "layer 'pool1': input has shape [1, 20], expected images [batch, height, width, channels]");
}

}  // namespace
}  // namespace trainyard::engine
