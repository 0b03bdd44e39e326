// Weights of 28 bits lose nothing, and their product agrees with one in doubles.
#include "trainer/backend/cpu/float28_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/select_kernels.h"
#include "trainer/backend/executor.h"
#include "trainer/backend/reference/trial.h"
#include "trainer/tensor/buffer.h"

namespace trainyard::engine {
namespace {

class Float28Test : public testing::Test {
 protected:
  void SetUp() override {
    if (RunnableFloat28Product() == nullptr)
      GTEST_SKIP() << "this processor has no AVX512-VBMI: products with weights of 28 bits are not tested";
  }

  std::optional<Float28Weights> Pack(int64_t k, int64_t columns, const std::vector<float>& weights, const float* bias = nullptr) {
    return Float28Weights::Pack(k, columns, weights.data(), bias, device_);
  }

  std::vector<float> Normal(int64_t count, float deviation) {
    std::normal_distribution<float> normal(0, deviation);
    std::vector<float> values(static_cast<size_t>(count));
    std::ranges::generate(values, [&] { return normal(random_); });
    return values;
  }

  // Of every column, in units of the sum of all its products' sizes.
  void ExpectProduct(int64_t k, int64_t columns, std::vector<float> weights, Activation activation = Activation::kIdentity) {
    SCOPED_TRACE(testing::Message() << k << " x " << columns);
    const std::vector<float> x = Normal(k, 1.0f);
    const std::vector<float> bias = Normal(columns, 1.0f);
    const std::optional<Float28Weights> packed = Pack(k, columns, weights, bias.data());
    ASSERT_TRUE(packed.has_value());
    Buffer memory(static_cast<size_t>(PaddedFloats(columns)) * sizeof(float));
    auto* const y = reinterpret_cast<float*>(memory.data());
    packed->Multiply(x.data(), y, activation, device_);
    for (int64_t column = 0; column < columns; ++column) {
      double sum = bias[column];
      double size = std::abs(sum);
      for (int64_t row = 0; row < k; ++row) {
        const double product = static_cast<double>(x[row]) * weights[row * columns + column];
        sum += product;
        size += std::abs(product);
      }
      if (activation == Activation::kRelu) sum = std::max(0.0, sum);
      if (activation == Activation::kTanh) sum = std::tanh(sum);
      ASSERT_NEAR(y[column], sum, 1e-6 * size) << "column " << column;
    }
  }

  std::mt19937 random_{1};
  ThreadPool pool_{3};
  WeightStore store_;
  CpuDevice device_{*RunnableKernels().front(), pool_, store_, RunnableFloat28Product()};
};

TEST_F(Float28Test, NoWeightLosesABit) {
  constexpr int64_t kRows = 11, kColumns = 70;
  std::vector<float> weights(kRows * kColumns);
  // All exponents of a panel: from the largest's to 2^-15 of it.
  for (size_t i = 0; i < weights.size(); ++i) {
    const float mantissa = 1.0f + static_cast<float>(random_() & 0x7fffff) * 0x1p-23f;
    weights[i] = std::ldexp(i % 3 == 0 ? -mantissa : mantissa, -7 - static_cast<int>(i % 16));
  }
  const auto packed = Pack(kRows, kColumns, weights);
  ASSERT_TRUE(packed.has_value());
  EXPECT_EQ(packed->wide_rows(), 0);
  for (int64_t i = 0; i < kRows * kColumns; ++i) EXPECT_EQ(packed->At(i / kColumns, i % kColumns), weights[i]) << i;
}

TEST_F(Float28Test, ProductsAgreeOverSizes) {
  for (const int64_t k : {1, 2, 7, 200}) {
    for (const int64_t columns : {1, 15, 16, 17, 31, 32, 33, 100, 997}) ExpectProduct(k, columns, Normal(k * columns, 0.05f));
  }
}

TEST_F(Float28Test, ProductsAgreeWithActivations) {
  for (const Activation activation : {Activation::kRelu, Activation::kTanh}) ExpectProduct(50, 41, Normal(50 * 41, 0.1f), activation);
}

TEST_F(Float28Test, ProductsAgreeOverScales) {
  for (const float deviation : {1e-15f, 1e-3f, 40.0f, 1e15f}) ExpectProduct(64, 40, Normal(64 * 40, deviation));
}

TEST_F(Float28Test, RowsOfSmallWeightsAndZerosAreFloats) {
  constexpr int64_t kRows = 600, kColumns = 40;
  std::vector<float> weights = Normal(kRows * kColumns, 1.0f);
  for (float& weight : weights) weight += weight < 0 ? -0.01f : 0.01f;
  const float small[] = {0.0f, -0.0f, 1e-7f, -3e-6f, 1e-40f};
  for (size_t i = 0; i < 30; ++i) weights[i * 797] = small[i % 5];
  const auto packed = Pack(kRows, kColumns, weights);
  ASSERT_TRUE(packed.has_value());
  EXPECT_EQ(packed->wide_rows(), 30);
  ExpectProduct(kRows, kColumns, weights);
}

TEST_F(Float28Test, WhatGainsNothingOrWouldLoseBitsIsNotPacked) {
  constexpr int64_t kRows = 100, kColumns = 40;
  std::vector<float> weights = Normal(kRows * kColumns, 1.0f);
  const std::vector<float> bias(kColumns, 1e32f);
  EXPECT_FALSE(Pack(kRows, kColumns, weights, bias.data()).has_value());
  for (size_t i = 0; i < weights.size(); i += 300) weights[i] = 0.0f;
  EXPECT_FALSE(Pack(kRows, kColumns, weights).has_value());
  EXPECT_FALSE(Pack(kRows, kColumns, std::vector<float>(kRows * kColumns, 0.0f)).has_value());
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 3e38f, 1e-20f}) {
    EXPECT_FALSE(Pack(kRows, kColumns, std::vector<float>(kRows * kColumns, value)).has_value()) << value;
  }
}

// One example goes through weights of 28 bits, two go through floats.
TEST_F(Float28Test, APredictionOfOneExampleHasTheBitsOfTwo) {
  constexpr int64_t kIn = 1900, kOut = 500;  // 3.8 MB
  std::vector<std::vector<float>> found;
  for (const int64_t batch : {1, 2}) {
    Trial trial;
    const Value x = trial.Input("x", {batch, 3});
    const Value wide = *trial.builder().Dense("wide", x, trial.Parameter("wide/kernel", {3, kIn}));
    Value y = *trial.builder().Dense("y", wide, trial.Parameter("y/kernel", {kIn, kOut}));
    y = *trial.builder().Activate("relu", *trial.builder().Bias("bias", y, trial.Parameter("y/bias", {kOut})), Activation::kRelu);
    ASSERT_TRUE(trial.builder().Output("y", y).ok());
    const ParameterSet parameters = trial.parameters();
    const auto backend = MakeCpuBackend({.threads = 2});
    ASSERT_TRUE(backend.ok());
    const auto executor = Executor::Create(trial.builder().graph(), **backend, {.inference = &parameters});
    ASSERT_TRUE(executor.ok()) << executor.status();
    const std::vector<float> fed = {0.5f, -0.25f, 1.0f, 0.5f, -0.25f, 1.0f};
    const std::vector<Feed> feeds = {{"x", {DType::kF32, {batch, 3}, const_cast<float*>(fed.data())}}};
    ASSERT_TRUE((*executor)->Run({.training = false}, feeds, parameters, nullptr, nullptr).ok());
    found.emplace_back(static_cast<size_t>(batch * kOut));
    ASSERT_TRUE((*executor)->Fetch("y", {DType::kF32, {batch, kOut}, found.back().data()}).ok());
  }
  for (int64_t i = 0; i < kOut; ++i) ASSERT_EQ(found[0][i], found[1][i]) << i;
}

}  // namespace
}  // namespace trainyard::engine
