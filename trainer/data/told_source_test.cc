#include "trainer/data/told_source.h"

#include <gtest/gtest.h>

#include <string>

#include "trainer/base/fake_clock.h"

namespace trainyard::engine {
namespace {

TEST(Told, AReadThatLastsIsToldNowAndThen) {
  const std::string bytes(size_t{4} << 20U, 'x');
  FakeClock clock;
  const std::unique_ptr<ByteSource> source = Told(MemorySource(bytes), "a.csv", clock);
  std::string quarter(size_t{1} << 20U, '\0');
  const auto read = [&](absl::Duration time) {
    clock.Advance(time);
    testing::internal::CaptureStdout();
    EXPECT_EQ(source->Read(std::as_writable_bytes(std::span(quarter))).value(), quarter.size());
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_EQ(read(absl::Seconds(4)), "");
  EXPECT_NE(read(absl::Seconds(1)).find("reads a.csv: 50% of 4 MiB"), std::string::npos);
  EXPECT_EQ(read(absl::Seconds(1)), "") << "it was told a second ago";
  EXPECT_NE(read(absl::Seconds(4)).find("reads a.csv: 100% of 4 MiB"), std::string::npos);
  EXPECT_EQ(source->AtMostLeft(), 0);
}

}  // namespace
}  // namespace trainyard::engine
