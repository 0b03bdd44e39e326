// Convolutions whose transformed values are whole numbers: as exact as their operands are, however
// samples and filters differ in size, on each instruction set that has them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "trainer/backend/cpu/test_bf16.h"
#include "trainer/backend/executor.h"
#include "trainer/ops/builder.h"
#include "trainer/tensor/bfloat16.h"

namespace trainyard::engine {
namespace {

struct ConvolvedImages {
  int batch = 18, side = 8, channels = 20, filters = 18, taps = 5;
};

class WinogradWholeTest : public Bf16Test {
 protected:
  void SetUp() override {
    Bf16Test::SetUp();
    if (IsSkipped()) return;
    const absl::StatusOr<Bf16Set> set = SelectBf16Set(GetParam());
    ASSERT_TRUE(set.ok()) << set.status();
    if (set->kernels.winograd_whole.product == nullptr) GTEST_SKIP() << GetParam() << " multiplies no whole numbers";
  }

  void Make(const ConvolvedImages& images) {
    images_ = images;
    std::mt19937 random(7);
    const auto draw = [&] { return std::uniform_real_distribution<float>(-1, 1)(random); };
    x_.resize(static_cast<size_t>(images.batch) * SampleSize());
    std::ranges::generate(x_, draw);
    weights_.resize(static_cast<size_t>(images.taps) * images.taps * images.channels * images.filters);
    std::ranges::generate(weights_, draw);
    const std::vector<double> before = Exact(0, 0);
    RoundToBfloat16(std::span(x_));
    RoundToBfloat16(std::span(weights_));
    cost_of_rounding_ = ShareOff(Exact(0, 0), before);
  }
  int SampleSize() const { return images_.side * images_.side * images_.channels; }
  std::span<float> Sample(int sample) { return std::span(x_).subspan(static_cast<size_t>(sample) * SampleSize(), SampleSize()); }
  void ScaleFilter(int filter, float by) {
    for (size_t i = filter; i < weights_.size(); i += images_.filters) weights_[i] = RoundToBfloat16(weights_[i] * by);
  }

  // [batch][side][side][filters]. A convolution that leaves x as it is comes first: its result is
  // in pairs.
  std::vector<float> Convolve(int threads = 1) {
    GraphBuilder builder;
    const Shape shape = {images_.batch, images_.side, images_.side, images_.channels};
    const Value x = *builder.Input("x", shape);
    const Value same = *builder.Conv2d("same", x, *builder.Parameter("same/kernel", {1, 1, images_.channels, images_.channels}));
    const Value y = *builder.Conv2d(
        "y", same, *builder.Parameter("kernel", {images_.taps, images_.taps, images_.channels, images_.filters}), {1, 1}, Padding::kSame);
    EXPECT_TRUE(builder.Output("y", y).ok());
    const Graph graph = std::move(builder).Build();
    const std::unique_ptr<Backend> backend = CpuInBf16(GetParam(), threads);
    absl::StatusOr<std::unique_ptr<Executor>> executor = Executor::Create(graph, *backend);
    EXPECT_TRUE(executor.ok()) << executor.status();
    ParameterSet parameters({graph.parameters().begin(), graph.parameters().end()});
    for (int c = 0; c < images_.channels; ++c) parameters.values(0)[static_cast<size_t>(c) * images_.channels + c] = 1;
    std::ranges::copy(weights_, parameters.values(1).begin());
    const std::vector<Feed> feeds = {{"x", {DType::kF32, shape, x_.data()}}};
    const absl::Status run = (*executor)->Run({}, feeds, parameters, nullptr, nullptr);
    EXPECT_TRUE(run.ok()) << run;
    std::vector<float> results(static_cast<size_t>(images_.batch) * images_.side * images_.side * images_.filters);
    const Shape of_y = {images_.batch, images_.side, images_.side, images_.filters};
    EXPECT_TRUE((*executor)->Fetch("y", {DType::kF32, of_y, results.data()}).ok());
    return results;
  }

  // Of one sample and filter, [side][side].
  std::vector<double> Exact(int sample, int filter) {
    const int pad = images_.taps / 2;
    std::vector<double> results;
    for (int row = 0; row < images_.side; ++row) {
      for (int column = 0; column < images_.side; ++column) {
        double sum = 0;
        for (int i = 0; i < images_.taps; ++i) {
          for (int j = 0; j < images_.taps; ++j) {
            const int r = row + i - pad;
            const int c = column + j - pad;
            if (r < 0 || r >= images_.side || c < 0 || c >= images_.side) continue;
            const std::span<const float> pixel = Sample(sample).subspan((static_cast<size_t>(r) * images_.side + c) * images_.channels);
            const float* const weights = &weights_[static_cast<size_t>(i * images_.taps + j) * images_.channels * images_.filters + filter];
            for (int k = 0; k < images_.channels; ++k) sum += double{pixel[k]} * weights[static_cast<size_t>(k) * images_.filters];
          }
        }
        results.push_back(sum);
      }
    }
    return results;
  }
  std::vector<float> Of(const std::vector<float>& results, int sample, int filter) const {
    std::vector<float> found;
    const size_t pixels = static_cast<size_t>(images_.side) * images_.side;
    for (size_t pixel = 0; pixel < pixels; ++pixel) found.push_back(results[(sample * pixels + pixel) * images_.filters + filter]);
    return found;
  }
  // Results are as exact as their operands, whose rounding has cost about as much.
  void ExpectAsExactAsOperands(const std::vector<float>& results, int sample, int filter) {
    EXPECT_LE(ShareOff(Of(results, sample, filter), Exact(sample, filter)), 1.7 * cost_of_rounding_)
        << "sample " << sample << ", filter " << filter << " of " << images_.channels << " channels";
  }

  ConvolvedImages images_;
  std::vector<float> x_;        // [batch][side][side][channels]
  std::vector<float> weights_;  // [taps][taps][channels][filters]
  double cost_of_rounding_ = 0;
};

TEST_P(WinogradWholeTest, EachSampleAndFilterIsAsExactWhateverItsSize) {
  for (const ConvolvedImages& images : {ConvolvedImages{}, ConvolvedImages{.side = 12, .channels = 64, .filters = 34, .taps = 3},
                                        ConvolvedImages{.channels = 64, .taps = 5}}) {
    Make(images);
    for (float& value : Sample(1)) value *= 0x1p60f;
    for (float& value : Sample(2)) value *= 0x1p-60f;
    for (float& value : Sample(3)) value = std::max(0.0f, value);
    ScaleFilter(1, 0x1p30f);
    ScaleFilter(2, 0x1p-30f);
    const std::vector<float> results = Convolve();
    for (const int sample : {0, 1, 2, 3, 17}) {
      for (const int filter : {0, 1, 2, images.filters - 1}) ExpectAsExactAsOperands(results, sample, filter);
    }
    EXPECT_EQ(Convolve(2), results);
  }
}

TEST_P(WinogradWholeTest, SumsOfTheLargestValuesFitTheirNumbers) {
  // With these signs a tile's transform grows most at one element and all channels add up.
  for (const auto& sign :
       std::vector<std::function<float(int, int)>>{[](int, int) { return 1.0f; }, [](int row, int) { return row % 4 < 2 ? 1.0f : -1.0f; },
                                                   [](int row, int column) { return (row + column) % 2 == 0 ? 1.0f : -1.0f; }}) {
    for (const int taps : {3, 5}) {
      Make({.batch = 2, .side = 8, .channels = 64, .filters = 18, .taps = taps});
      std::ranges::fill(weights_, 1.0f);
      for (size_t i = 0; i < x_.size(); ++i) {
        const auto pixel = static_cast<int>(i / images_.channels) % (images_.side * images_.side);
        x_[i] = sign(pixel / images_.side, pixel % images_.side);
      }
      const std::vector<float> found = Of(Convolve(), 1, 3);
      const std::vector<double> exact = Exact(1, 3);
      for (size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(found[i], exact[i], 0.002 * taps * taps * images_.channels) << i;
    }
  }
}

TEST_P(WinogradWholeTest, ZerosStayZerosAndWhatIsNotFiniteStaysWithItsSampleOrFilter) {
  Make({});
  std::ranges::fill(Sample(0), 0.0f);
  Sample(1)[70] = std::numeric_limits<float>::quiet_NaN();
  Sample(2)[70] = std::numeric_limits<float>::infinity();
  ScaleFilter(1, 0);
  ScaleFilter(2, std::numeric_limits<float>::infinity());
  const std::vector<float> results = Convolve();
  using ::testing::Contains;
  using ::testing::Each;
  using ::testing::IsNan;
  EXPECT_THAT(Of(results, 0, 0), Each(0.0f));
  EXPECT_THAT(Of(results, 3, 1), Each(0.0f));
  EXPECT_THAT(Of(results, 1, 0), Contains(IsNan()));
  EXPECT_THAT(Of(results, 2, 0), Contains(::testing::Not(::testing::Truly([](float value) { return std::isfinite(value); }))));
  EXPECT_THAT(Of(results, 3, 2), Each(::testing::Not(::testing::Truly([](float value) { return std::isfinite(value); }))));
  for (const int sample : {3, 17}) ExpectAsExactAsOperands(results, sample, 0);
}

INSTANTIATE_TEST_SUITE_P(EachInstructionSet, WinogradWholeTest, testing::ValuesIn(KnownBf16Sets()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace trainyard::engine
