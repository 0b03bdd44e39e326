// Properties of single kernels that agreement with the reference at 1e-5 would not show.
#include "trainer/backend/cpu/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "trainer/backend/cpu/select_kernels.h"
#include "trainer/tensor/buffer.h"

namespace trainyard::engine {
namespace {

class KernelsTest : public testing::TestWithParam<const KernelTable*> {
 protected:
  // The activation of every value of `from`, which is padded to whole vectors.
  static std::vector<float> Activate(const std::vector<float>& from, Activation activation) {
    const int64_t vectors = (static_cast<int64_t>(from.size()) + kLanes - 1) / kLanes;
    Buffer x(static_cast<size_t>(vectors) * kLanes * sizeof(float));
    std::copy(from.begin(), from.end(), x.as<float>());
    GetParam()->activate(x.as<float>(), x.as<float>(), vectors, activation);
    return {x.as<float>(), x.as<float>() + from.size()};
  }

  static std::vector<float> Sweep(float low, float high) {
    std::vector<float> values;
    for (int i = 0; i <= 200'000; ++i) values.push_back(low + (high - low) * static_cast<float>(i) / 200'000.0f);
    for (float tiny = 1.0f; tiny > 1e-30f; tiny /= 3.0f) values.insert(values.end(), {tiny, -tiny});
    return values;
  }
};

double UlpsBetween(float found, double exact) {
  const float near = std::abs(static_cast<float>(exact));
  const double ulp = static_cast<double>(std::nextafter(near, std::numeric_limits<float>::infinity())) - near;
  return std::abs(found - exact) / ulp;
}

TEST_P(KernelsTest, TanhIsWithinFourUlps) {
  const std::vector<float> x = Sweep(-12.0f, 12.0f);
  const std::vector<float> y = Activate(x, Activation::kTanh);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_LE(UlpsBetween(y[i], std::tanh(static_cast<double>(x[i]))), 4.0) << "tanh " << x[i];
}

TEST_P(KernelsTest, SigmoidIsWithinFourUlps) {
  const std::vector<float> x = Sweep(-60.0f, 60.0f);
  const std::vector<float> y = Activate(x, Activation::kSigmoid);
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_LE(UlpsBetween(y[i], 1.0 / (1.0 + std::exp(-static_cast<double>(x[i])))), 4.0) << "sigmoid " << x[i];
}

TEST_P(KernelsTest, ActivationsOfHugeValuesAreTheirLimits) {
  EXPECT_EQ(Activate({1e30f, -1e30f}, Activation::kTanh), (std::vector<float>{1.0f, -1.0f}));
  const std::vector<float> sigmoid = Activate({1e30f, -1e30f}, Activation::kSigmoid);
  EXPECT_EQ(sigmoid[0], 1.0f);
  EXPECT_LT(sigmoid[1], 1e-37f);
  EXPECT_EQ(Activate({1e30f, -1e30f, -0.5f}, Activation::kRelu), (std::vector<float>{1e30f, 0.0f, 0.0f}));
}

TEST_P(KernelsTest, CrossEntropyOfExtremeLogitsIsFiniteAndCountsSamplesOnly) {
  // One panel of two classes: logits ±500, label 0; only the first 3 lanes are samples.
  Buffer logits(2 * kLanes * sizeof(float));
  Buffer labels(kLanes * sizeof(int32_t));
  Buffer probabilities(2 * kLanes * sizeof(float));
  for (int lane = 0; lane < kLanes; ++lane) {
    logits.as<float>()[lane] = -500.0f;
    logits.as<float>()[kLanes + lane] = 500.0f;
  }
  LossArgs args{
      .x = logits.as<float>(), .labels = labels.as<int32_t>(), .y = probabilities.as<float>(), .panels = 1, .classes = 2, .samples = 3};
  EXPECT_DOUBLE_EQ(GetParam()->cross_entropy(args), 3000.0);
  EXPECT_EQ(GetParam()->correct_count(args), 0);
  EXPECT_NEAR(probabilities.as<float>()[0], 0.0f, 1e-30f);
  EXPECT_EQ(probabilities.as<float>()[kLanes], 1.0f);
}

TEST_P(KernelsTest, PanelsAndRowsRoundTripAndPaddingIsZero) {
  for (const int64_t features : {1, 15, 16, 35}) {
    for (const int samples : {1, 16, 21}) {
      std::vector<float> rows(samples * features);
      for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i) + 1.0f;
      const int panels = (samples + kLanes - 1) / kLanes;
      Buffer value(static_cast<size_t>(panels * kLanes * features) * sizeof(float));
      std::fill_n(value.as<float>(), panels * kLanes * features, -1.0f);
      ConvertArgs args{.from = rows.data(), .to = value.as<float>(), .samples = samples, .features = features};
      GetParam()->to_panels_f32(args);
      for (int64_t f = 0; f < features; ++f) {
        for (int n = 0; n < panels * kLanes; ++n) {
          const float expected = n < samples ? rows[n * features + f] : 0.0f;
          ASSERT_EQ(value.as<float>()[(n / kLanes * features + f) * kLanes + n % kLanes], expected);
        }
      }
      std::vector<float> back(rows.size());
      args = {.from = value.as<float>(), .to = back.data(), .samples = samples, .features = features};
      GetParam()->from_panels_f32(args);
      ASSERT_EQ(back, rows);
    }
  }
}

TEST_P(KernelsTest, BytesBecomeScaledPanels) {
  constexpr int kFeatures = 19;
  std::vector<uint8_t> rows(3 * kFeatures);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint8_t>(255 - i);
  Buffer value(kLanes * kFeatures * sizeof(float));
  GetParam()->to_panels_u8({.from = rows.data(), .to = value.as<float>(), .samples = 3, .features = kFeatures, .scale = 0.5f});
  for (int f = 0; f < kFeatures; ++f) {
    for (int n = 0; n < 3; ++n) ASSERT_EQ(value.as<float>()[f * kLanes + n], 0.5f * static_cast<float>(rows[n * kFeatures + f]));
  }
}

TEST_P(KernelsTest, PeakIsCountedInFloatingPointOperations) {
  float sink[kLanes] = {0.5f, 1.0f};
  const double flops = GetParam()->multiply_adds(10, sink);
  EXPECT_GT(flops, 0.0);
  EXPECT_EQ(GetParam()->multiply_adds(30, sink), 3.0 * flops);
}

INSTANTIATE_TEST_SUITE_P(EachInstructionSet, KernelsTest, testing::ValuesIn(RunnableKernels().begin(), RunnableKernels().end()),
                         [](const auto& info) { return info.param->isa; });

TEST(SelectKernels, GivesTheFastestByDefaultAndAnyByName) {
  EXPECT_EQ(*SelectKernels(), RunnableKernels().front());
  for (const KernelTable* table : RunnableKernels()) EXPECT_EQ(*SelectKernels(table->isa), table);
}

}  // namespace
}  // namespace trainyard::engine
