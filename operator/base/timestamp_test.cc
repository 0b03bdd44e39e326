#include "operator/base/timestamp.h"

#include <gtest/gtest.h>

namespace trainyard::control {
namespace {

TEST(Timestamps, AreWrittenAsKubernetesWritesThemAndReadBack) {
  const absl::Time time = absl::FromUnixMicros(1795253597443604);
  EXPECT_EQ(FormatTimestamp(time), "2026-11-21T09:33:17Z");
  EXPECT_EQ(FormatMicroTimestamp(time), "2026-11-21T09:33:17.443604Z");
  EXPECT_EQ(ParseTimestamp(FormatMicroTimestamp(time)), time);
  EXPECT_EQ(ParseTimestamp("2026-11-21T10:33:17+01:00"), absl::FromUnixSeconds(1795253597));
  for (const char* nonsense : {"", "yesterday", "2026-13-40T00:00:00Z", "2026-11-21"})
    EXPECT_EQ(ParseTimestamp(nonsense), absl::InfinitePast());
}

}  // namespace
}  // namespace trainyard::control
