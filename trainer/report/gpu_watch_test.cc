#include "trainer/report/gpu_watch.h"

#include <gmock/gmock.h>

namespace trainyard::engine {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

// Gives these samples in turn, then the last one for ever.
class FakeMeter final : public GpuMeter {
 public:
  explicit FakeMeter(std::vector<std::vector<GpuReading>> samples) : samples_(std::move(samples)) {}
  std::vector<GpuReading> Read() override { return samples_[std::min(next_++, samples_.size() - 1)]; }
  size_t reads() const { return next_; }

 private:
  std::vector<std::vector<GpuReading>> samples_;
  size_t next_ = 0;
};

GpuReading Gpu(int gpu, int64_t used, std::optional<double> utilization) {
  return {.gpu = gpu, .name = "Fake", .memory_used_bytes = used, .memory_total_bytes = 80, .utilization = utilization};
}

const absl::Time kStart = absl::FromUnixSeconds(1000);

TEST(GpuWatch, WithoutAMeterThereIsNothingToTell) {
  GpuWatch watch(nullptr);
  EXPECT_FALSE(watch.Due(kStart));
  EXPECT_THAT(watch.readings(), IsEmpty());
  EXPECT_FALSE(watch.Conclude(kStart).has_value());
}

TEST(GpuWatch, ASampleIsTakenOnceASecond) {
  FakeMeter meter({{Gpu(0, 1, 0.5)}});
  GpuWatch watch(&meter);
  EXPECT_TRUE(watch.Due(kStart));
  watch.Sample(kStart);
  EXPECT_FALSE(watch.Due(kStart + absl::Milliseconds(999)));
  EXPECT_TRUE(watch.Due(kStart + absl::Seconds(1)));
}

TEST(GpuWatch, TheReportHasTheMostMemoryAndTheMeanUtilizationOfEachGpu) {
  FakeMeter meter({{Gpu(0, 10, 0.5), Gpu(1, 5, std::nullopt)}, {Gpu(0, 30, 1.0)}, {Gpu(0, 20, 0.9), Gpu(1, 7, std::nullopt)}});
  GpuWatch watch(&meter);
  watch.Sample(kStart);
  watch.Sample(kStart + absl::Seconds(1));
  const auto records = watch.Conclude(kStart + absl::Seconds(2));
  ASSERT_TRUE(records.has_value());
  ASSERT_THAT(*records, SizeIs(2));
  EXPECT_EQ((*records)[0].gpu, 0);
  EXPECT_EQ((*records)[0].name, "Fake");
  EXPECT_EQ((*records)[0].memory_total_bytes, 80);
  EXPECT_EQ((*records)[0].max_memory_used_bytes, 30);
  EXPECT_NEAR((*records)[0].utilization.value_or(0), 0.8, 1e-9);
  EXPECT_EQ((*records)[1].max_memory_used_bytes, 7);
  EXPECT_FALSE((*records)[1].utilization.has_value());
}

TEST(GpuWatch, TheEndTakesNoSecondSampleOfTheSameMoment) {
  FakeMeter meter({{Gpu(0, 10, 0.5)}});
  GpuWatch watch(&meter);
  watch.Sample(kStart);
  EXPECT_TRUE(watch.Conclude(kStart).has_value());
  EXPECT_EQ(meter.reads(), 1U);
}

}  // namespace
}  // namespace trainyard::engine
