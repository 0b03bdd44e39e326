#include "trainer/ops/dropout.h"

#include <gtest/gtest.h>

#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"
#include "trainer/ops/philox.h"

namespace trainyard::engine {
namespace {

// The known answers of the authors' Random123 library (kat_vectors, philox4x32 10).
TEST(Philox, GivesThePublishedNumbers) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Dropout, GradientsEqualNumericDifferences) {
  Trial trial;
  trial.MeanSquaredLoss(*trial.builder().Dropout("dropout", trial.Input("x", {4, 7}), 0.5f));
  const auto error = trial.CheckGradients({.inputs = {"x"}});
  ASSERT_TRUE(error.ok()) << error.status();
  EXPECT_LT(error->difference, 1e-5) << error->where;
}

class DropoutRun : public testing::Test {
 protected:
  static constexpr int kSamples = 64;
  static constexpr int kFeatures = 50;

  DropoutRun() {
    const Value x = *builder_.Input("x", {kSamples, kFeatures});
    const Value first = *builder_.Dropout("first", x, 0.25f);
    EXPECT_TRUE(builder_.Output("y", first).ok());
    EXPECT_TRUE(builder_.Output("z", *builder_.Dropout("second", x, 0.25f)).ok());
    executor_ = *Executor::Create(std::move(builder_).Build(), *backend_);
  }

  std::vector<float> Run(const StepContext& step, std::string_view output = "y") {
    std::vector<float> x(kSamples * kFeatures, 3.0f);
    std::vector<float> y(x.size());
    const Feed feed{"x", {DType::kF32, {kSamples, kFeatures}, x.data()}};
    EXPECT_TRUE(executor_->Run(step, std::span(&feed, 1), {}, nullptr, nullptr).ok());
    EXPECT_TRUE(executor_->Fetch(output, {DType::kF32, {kSamples, kFeatures}, y.data()}).ok());
    return y;
  }

  GraphBuilder builder_;
  std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  std::unique_ptr<Executor> executor_;
};

TEST_F(DropoutRun, DropsAtItsRateAndScalesTheRest) {
  int dropped = 0;
  for (float y : Run({.seed = 7})) {
    if (y == 0.0f) {
      ++dropped;
    } else {
      EXPECT_FLOAT_EQ(y, 4.0f);
    }
  }
  // 3,200 draws: the standard deviation of the share is 0.0077.
  EXPECT_NEAR(dropped / 3200.0, 0.25, 0.03);
}

TEST_F(DropoutRun, IsAFunctionOfSeedStepWorkerAndStream) {
  const std::vector<float> y = Run({.seed = 7, .step = 5, .worker = 1});
  EXPECT_EQ(Run({.seed = 7, .step = 5, .worker = 1}), y);
  EXPECT_NE(Run({.seed = 8, .step = 5, .worker = 1}), y);
  EXPECT_NE(Run({.seed = 7, .step = 6, .worker = 1}), y);
  EXPECT_NE(Run({.seed = 7, .step = 5, .worker = 2}), y);
  EXPECT_NE(Run({.seed = 7, .step = 5, .worker = 1}, "z"), y);
}

TEST_F(DropoutRun, DoesNothingOutsideTraining) {
  for (float y : Run({.training = false})) EXPECT_EQ(y, 3.0f);
}

TEST(Dropout, RateOutsideZeroToOneIsAnError) {
  Trial trial;
  const Value x = trial.Input("x", {4, 7});
  EXPECT_EQ(trial.builder().Dropout("drop", x, 1.0f).status().message(),
            "layer 'drop': rate is 1, expected a number of at least 0 and below 1");
  EXPECT_FALSE(trial.builder().Dropout("drop", x, -0.1f).ok());
  EXPECT_FALSE(trial.builder().Dropout("drop", x, std::numeric_limits<float>::quiet_NaN()).ok());
}

}  // namespace
}  // namespace trainyard::engine
