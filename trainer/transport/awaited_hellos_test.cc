#include "trainer/transport/awaited_hellos.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/transport/silent_stream.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(AwaitedHellos, NamesAStreamOnceWhenItsTimeIsUp) {
  const absl::Time start = absl::UnixEpoch();
  AwaitedHellos hellos(absl::Seconds(10));
  const auto first = std::make_shared<SilentStream>();
  const auto polite = std::make_shared<SilentStream>();
  const auto second = std::make_shared<SilentStream>();
  hellos.Opened(first, start);
  hellos.Opened(polite, start);
  hellos.Opened(second, start + absl::Seconds(3));
  hellos.Forget(polite.get());
  EXPECT_THAT(hellos.TakeLate(start + absl::Seconds(9)), IsEmpty());
  EXPECT_THAT(hellos.TakeLate(start + absl::Seconds(10)), ElementsAre(first));
  EXPECT_THAT(hellos.TakeLate(start + absl::Seconds(60)), ElementsAre(second));
  EXPECT_THAT(hellos.TakeLate(start + absl::Seconds(60)), IsEmpty());
}

}  // namespace
}  // namespace trainyard::engine
