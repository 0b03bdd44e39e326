#include "operator/trainingjob/chief_target.h"

#include <gtest/gtest.h>

#include "operator/children/test_makers.h"

namespace trainyard::control {
namespace {

using Pods = std::vector<std::shared_ptr<const Pod>>;

class ChiefTargetTest : public testing::Test {
 protected:
  static std::shared_ptr<const Pod> Running(int index, const std::string& owner_uid) {
    auto pod = std::make_shared<Pod>(MakePod(Role::kWorker, index).Ready().Build());
    pod->ip = "10.0.0." + std::to_string(index);
    pod->meta.controller.uid = owner_uid;
    return pod;
  }

  TrainingJob job_ = MakeJob().Replicas("ps", 1).Replicas("worker", 2).Build();
};

TEST_F(ChiefTargetTest, IsTheFirstWorkerOfAJobWithoutAChief) {
  const auto target = ChiefTarget(job_, {Running(1, "job-uid"), Running(0, "job-uid")});
  ASSERT_TRUE(target.has_value());
  EXPECT_EQ(target->name, "mnist-worker-0");
  EXPECT_EQ(target->ip, "10.0.0.0");
  EXPECT_EQ(target->port, 5001);
}

// `kubectl delete tj mnist --cascade=orphan` leaves running pods, whose names a new job wants.
TEST_F(ChiefTargetTest, APodThatAnEarlierJobLeftSaysNothingOfThisOne) {
  EXPECT_FALSE(ChiefTarget(job_, {Running(0, "")}).has_value());
  EXPECT_FALSE(ChiefTarget(job_, {Running(0, "earlier-uid")}).has_value());
}

TEST_F(ChiefTargetTest, NobodyIsAskedWithoutAnAddressOrAfterTheEnd) {
  auto without = std::make_shared<Pod>(*Running(0, "job-uid"));
  without->ip = "";
  EXPECT_FALSE(ChiefTarget(job_, {without}).has_value());
  auto ending = std::make_shared<Pod>(*Running(0, "job-uid"));
  ending->meta.deletion_time = kStart;
  EXPECT_FALSE(ChiefTarget(job_, {ending}).has_value());
  EXPECT_FALSE(ChiefTarget(job_, {std::make_shared<Pod>(MakePod(Role::kWorker, 0).Exited(0).Build())}).has_value());
  job_.status.phase = JobPhase::kSucceeded;
  EXPECT_FALSE(ChiefTarget(job_, {Running(0, "job-uid")}).has_value());
}

}  // namespace
}  // namespace trainyard::control
