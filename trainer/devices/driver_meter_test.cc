#include "trainer/devices/driver_meter.h"

#include <gmock/gmock.h>

#include "trainer/devices/shared_library.h"

namespace trainyard::engine {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

DriverLibraries Fake() { return {.cuda = TRAINYARD_FAKE_DRIVER, .nvml = TRAINYARD_FAKE_DRIVER}; }

std::string ErrorOf(const std::vector<int>& gpus, const DriverLibraries& libraries) {
  const auto meter = OpenDriverMeter(gpus, libraries);
  EXPECT_EQ(meter.status().code(), absl::StatusCode::kUnavailable);
  return std::string(meter.status().message());
}

// Of NVML, by all meters that are there.
int Starts() {
  int (*starts)() = nullptr;
  EXPECT_TRUE(SharedLibrary::Open(TRAINYARD_FAKE_DRIVER)->Find("FakeNvmlStarts", starts).ok());
  return starts();
}

TEST(DriverMeter, ReadsNameMemoryAndUtilizationOfAGpuByItsUuid) {
  const auto meter = OpenDriverMeter({0}, Fake());
  ASSERT_TRUE(meter.ok()) << meter.status();
  const std::vector<GpuReading> first = (*meter)->Read();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].gpu, 0);
  EXPECT_EQ(first[0].name, "Fake 80GB");
  EXPECT_EQ(first[0].memory_total_bytes, 80'000);
  EXPECT_DOUBLE_EQ(first[0].utilization.value_or(-1), 0.87);
  EXPECT_EQ((*meter)->Read()[0].memory_used_bytes, first[0].memory_used_bytes + 500);
}

TEST(DriverMeter, ASliceOfAGpuHasMemoryOfItsOwnAndNoUtilization) {
  const auto meter = OpenDriverMeter({1}, Fake());
  ASSERT_TRUE(meter.ok()) << meter.status();
  const std::vector<GpuReading> readings = (*meter)->Read();
  ASSERT_EQ(readings.size(), 1U);
  EXPECT_EQ(readings[0].name, "Fake 80GB MIG 1g.10gb");
  EXPECT_EQ(readings[0].memory_total_bytes, 10'000);
  EXPECT_FALSE(readings[0].utilization.has_value());
}

TEST(DriverMeter, SeveralGpusAreReadInTheirOrder) {
  const auto meter = OpenDriverMeter({1, 0}, Fake());
  ASSERT_TRUE(meter.ok()) << meter.status();
  std::vector<int> gpus;
  for (const GpuReading& reading : (*meter)->Read()) gpus.push_back(reading.gpu);
  EXPECT_THAT(gpus, ElementsAre(1, 0));
}

TEST(DriverMeter, StopsWhatItHasStarted) {
  {
    const auto meter = OpenDriverMeter({0}, Fake());
    EXPECT_EQ(Starts(), 1);
  }
  EXPECT_EQ(Starts(), 0);
  EXPECT_FALSE(OpenDriverMeter({2}, Fake()).ok());
  EXPECT_EQ(Starts(), 0);
}

TEST(DriverMeter, AMissingLibraryOrGpuIsAnErrorThatNamesIt) {
  EXPECT_THAT(ErrorOf({0}, {.cuda = "libno-such-cuda.so.1", .nvml = TRAINYARD_FAKE_DRIVER}),
              HasSubstr("libno-such-cuda.so.1 cannot be loaded"));
  EXPECT_THAT(ErrorOf({0}, {.cuda = TRAINYARD_FAKE_DRIVER, .nvml = "libno-such-nvml.so.1"}),
              HasSubstr("libno-such-nvml.so.1 cannot be loaded"));
  EXPECT_THAT(ErrorOf({0}, {.cuda = TRAINYARD_FAKE_DRIVER, .nvml = "libm.so.6"}), HasSubstr("libm.so.6 has no function nvmlInit_v2"));
  EXPECT_THAT(ErrorOf({0}, {.cuda = "libm.so.6", .nvml = TRAINYARD_FAKE_DRIVER}), HasSubstr("libm.so.6 has no function cuInit"));
  EXPECT_THAT(ErrorOf({3}, Fake()), AllOf(HasSubstr("cuda:3"), HasSubstr("error 101")));
  EXPECT_THAT(ErrorOf({2}, Fake()), HasSubstr("NVML does not know cuda:2: Not Found"));
}

}  // namespace
}  // namespace trainyard::engine
