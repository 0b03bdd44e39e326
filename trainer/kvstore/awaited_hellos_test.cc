#include "trainer/kvstore/awaited_hellos.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SilentLane final : public Lane {
 public:
  void Send(std::vector<Record> /*records*/, bool /*more*/) override {}
  void Close(const absl::Status& /*status*/) override {}
  void Abort() override {}
  std::string peer() const override { return "someone"; }
  LaneTraffic traffic() const override { return {}; }
};

TEST(AwaitedHellos, NamesALaneOnceWhenItsTimeIsUp) {
  const absl::Time start = absl::UnixEpoch();
  AwaitedHellos hellos(absl::Seconds(10));
  const auto first = std::make_shared<SilentLane>();
  const auto polite = std::make_shared<SilentLane>();
  const auto second = std::make_shared<SilentLane>();
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
