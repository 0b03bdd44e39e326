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

// One call of conv_rows in memory that nothing else may touch.
class RowsCall {
 public:
  explicit RowsCall(ConvRowsArgs args) : args_(args), width_((args.columns + kLanes - 1) / kLanes * kLanes), y_(YFloats(), kUntouched) {
    for (size_t i = 0; i < y_.size(); ++i) {
      if (Inside(i)) y_[i] = Value(i, 3);
    }
    if (args.weights_panel != 0) args_.weights_panel = int64_t{args.kernel_rows} * args.run * kLanes;
    args_.x_pixel = args.run + 1;
    args_.x_kernel_row = args.pixels * args_.x_pixel;
    args_.x_row = args_.x_kernel_row;
    for (int64_t i = 0; i < (args.rows + args.kernel_rows) * args_.x_row; ++i) x_.push_back(Value(static_cast<size_t>(i), 7));
    weights_ = Buffer(static_cast<size_t>(int64_t{args.kernel_rows} * args.run * width_ + width_) * sizeof(float));
    for (int64_t i = 0; i < int64_t{args.kernel_rows} * args.run * width_ + width_; ++i) {
      weights_.as<float>()[i] = Value(static_cast<size_t>(i), 11);
    }
  }

  void Run(const KernelTable& kernels, bool with_add) {
    ConvRowsArgs args = args_;
    args.x = x_.data();
    args.weights = weights_.as<float>();
    args.weights_row = args.run * width_;
    if (!args.accumulate) args.bias = Bias();
    args.y_pixel = args.columns + 1;
    args.y_row = args.pixels * args.y_pixel;
    args.y = y_.data();
    const std::vector<float> before = y_;
    if (with_add) args.add = before.data();
    kernels.conv_rows(args);
    for (size_t i = 0; i < y_.size(); ++i) {
      if (!Inside(i)) {
        ASSERT_EQ(y_[i], kUntouched) << "beyond a row's columns, at " << i;
        continue;
      }
      const double expected = Expected(i, before[i], with_add);
      ASSERT_NEAR(y_[i], expected, 1e-5 * (1 + std::abs(expected))) << "at " << i;
    }
  }

 private:
  static constexpr float kUntouched = -77.0f;
  static float Value(size_t i, size_t step) { return static_cast<float>(static_cast<int>(i * step % 19) - 9) / 8.0f; }
  size_t YFloats() const { return static_cast<size_t>(int64_t{args_.rows} * args_.pixels * (args_.columns + 1)); }
  bool Inside(size_t i) const { return static_cast<int>(i % static_cast<size_t>(args_.columns + 1)) < args_.columns; }
  const float* Bias() { return weights_.as<float>() + int64_t{args_.kernel_rows} * args_.run * width_; }

  double Expected(size_t i, float before, bool with_add) {
    const auto at = static_cast<int64_t>(i);
    const int64_t column = at % (args_.columns + 1);
    const int64_t pixel = at / (args_.columns + 1) % args_.pixels;
    const int64_t row = at / (args_.columns + 1) / args_.pixels;
    double sum = args_.accumulate ? before : Bias()[column];
    for (int64_t r = 0; r < args_.kernel_rows; ++r) {
      for (int64_t k = 0; k < args_.run; ++k) {
        const int64_t step = r * args_.run + k;
        const int64_t weight =
            args_.weights_panel != 0 ? column / kLanes * args_.weights_panel + step * kLanes + column % kLanes : step * width_ + column;
        sum += double{x_[static_cast<size_t>(row * args_.x_row + r * args_.x_kernel_row + pixel * args_.x_pixel + k)]} *
               weights_.as<float>()[weight];
      }
    }
    if (with_add) sum += before;
    return args_.relu ? std::max(sum, 0.0) : sum;
  }

  ConvRowsArgs args_;
  const int width_;
  std::vector<float> x_, y_;
  Buffer weights_;  // and the bias behind them
};

TEST_P(KernelsTest, RowsOfAnyWidthAreMultipliedAndNothingBeyondThemIsWritten) {
  const int widest = GetParam()->max_rows_vectors * kLanes;
  for (int columns = 1; columns <= widest; ++columns) {
    for (const int pixels : {1, 2, 5, 7, 12, 13, 29}) {
      SCOPED_TRACE(testing::Message() << pixels << " pixels of " << columns << " columns");
      RowsCall({.rows = 2, .pixels = pixels, .columns = columns, .kernel_rows = 2, .run = 3}).Run(*GetParam(), /*with_add=*/false);
      RowsCall({.pixels = pixels, .columns = columns, .run = 70, .accumulate = true}).Run(*GetParam(), /*with_add=*/false);
      RowsCall({.pixels = pixels, .columns = columns, .run = 1, .relu = true}).Run(*GetParam(), /*with_add=*/true);
    }
  }
}

TEST_P(KernelsTest, OnePixelTakesPanelsOfOneVectorTogether) {
  for (int columns = 1; columns <= kMostRowsVectors * kLanes; ++columns) {
    SCOPED_TRACE(columns);
    RowsCall({.pixels = 1, .columns = columns, .run = 9, .weights_panel = 1, .relu = true}).Run(*GetParam(), /*with_add=*/false);
  }
}

// Windows, scales and packed rows, whose last vector is a part of one.
TEST_P(KernelsTest, PartsOfVectorsLeaveTheirNeighboursAlone) {
  constexpr float kUntouched = -77.0f;
  for (int channels = 1; channels <= 35; ++channels) {
    std::vector<float> x(static_cast<size_t>(4 * channels));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 5 % 23) - 11.0f;
    std::vector<float> y(static_cast<size_t>(channels) + kLanes, kUntouched);
    PoolArgs pool;
    pool.in_h = pool.in_w = pool.size_h = pool.size_w = pool.stride_h = pool.stride_w = 2;
    pool.out_h = pool.out_w = 1;
    pool.channels = channels;
    pool.x = x.data();
    pool.y = y.data();
    GetParam()->max_pool_rows(pool, 0, 1);
    for (int c = 0; c < channels; ++c) {
      const auto at = [&](int pixel) { return x[static_cast<size_t>(int64_t{pixel} * channels + c)]; };
      ASSERT_EQ(y[static_cast<size_t>(c)], std::max({at(0), at(1), at(2), at(3)})) << channels << " channels";
    }
    ASSERT_EQ(std::ranges::count(y, kUntouched), kLanes) << channels << " channels";

    const int width = (channels + kLanes - 1) / kLanes * kLanes + kLanes;
    Buffer factors(static_cast<size_t>(width) * sizeof(float));
    std::fill_n(factors.as<float>(), width, 2.0f);
    BatchNormArgs twice;  // 2 x + 2
    twice.pixels = 1;
    twice.channels = channels;
    twice.scale = twice.shift = factors.as<float>();
    twice.x = x.data();
    twice.y = y.data();
    GetParam()->scale_rows(twice);
    for (int c = 0; c < channels; ++c) {
      ASSERT_EQ(y[static_cast<size_t>(c)], 2.0f * x[static_cast<size_t>(c)] + 2.0f) << channels << " channels";
    }
    ASSERT_EQ(std::ranges::count(y, kUntouched), kLanes) << channels << " channels";

    Buffer packed(static_cast<size_t>(2 * width) * sizeof(float));
    std::fill_n(packed.as<float>(), 2 * width, kUntouched);
    GetParam()->pack_rows(
        {.from = x.data(), .to = packed.as<float>(), .from_row = channels, .rows = 2, .columns = channels, .width = width});
    for (int i = 0; i < 2 * width; ++i) {
      const int column = i % width;
      const float expected = column < channels ? x[static_cast<size_t>(int64_t{i} / width * channels + column)] : 0.0f;
      ASSERT_EQ(packed.as<float>()[i], expected) << channels << " channels, at " << i;
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
