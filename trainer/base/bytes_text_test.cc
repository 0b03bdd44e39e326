#include "trainer/base/bytes_text.h"

#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

TEST(BytesText, HasAUnitThatFits) {
  EXPECT_EQ(BytesText(0), "0 bytes");
  EXPECT_EQ(BytesText(999), "999 bytes");
  EXPECT_EQ(BytesText(43'512), "43.5 kB");
  EXPECT_EQ(BytesText(12'000'000), "12.0 MB");
  EXPECT_EQ(BytesText(3'250'000'000), "3.25 GB");
  EXPECT_EQ(BytesText(9'600'000'000'000), "9.60 TB");
}

}  // namespace
}  // namespace trainyard::engine
