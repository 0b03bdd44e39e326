#include "trainer/base/process_usage.h"

#include <gtest/gtest.h>

#include <vector>

namespace trainyard::engine {
namespace {

TEST(ProcessUsage, MemoryThatIsTouchedIsResidentUntilItIsGivenBack) {
  constexpr int64_t kBytes = 64 << 20;
  const ProcessUsage before = ReadProcessUsage();
  EXPECT_GT(before.resident_bytes, 1 << 20);
  std::vector<char> memory(kBytes, 1);
  EXPECT_GT(ReadProcessUsage().resident_bytes, kBytes * 9 / 10);
  EXPECT_EQ(memory[kBytes / 2], 1);
  std::vector<char>().swap(memory);  // `= {}` would keep the memory
  const ProcessUsage after = ReadProcessUsage();
  EXPECT_GT(after.peak_resident_bytes, kBytes * 9 / 10);
  EXPECT_LT(after.resident_bytes, after.peak_resident_bytes);
}

TEST(ProcessUsage, ThePeakGrowsWithTheMemoryThatIsTouched) {
  const int64_t before = ReadProcessUsage().peak_resident_bytes;
  EXPECT_GT(before, 1 << 20);
  constexpr size_t kBytes = 64 << 20;
  std::vector<char> memory(kBytes, 1);
  EXPECT_GT(ReadProcessUsage().peak_resident_bytes, static_cast<int64_t>(kBytes) * 9 / 10);
  EXPECT_EQ(memory[kBytes / 2], 1);
}

TEST(ProcessUsage, WorkTakesCpuTime) {
  const double before = ReadProcessUsage().cpu_seconds;
  volatile double sum = 0;
  while (ReadProcessUsage().cpu_seconds <= before) sum = sum + 1;
  EXPECT_GT(ReadProcessUsage().cpu_seconds, before);
}

}  // namespace
}  // namespace trainyard::engine
