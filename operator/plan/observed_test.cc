#include "operator/plan/observed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/index_set.h"
#include "operator/children/test_makers.h"

namespace trainyard::control {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

Observed See(const Pod& pod) {
  Children children;
  children.pods.push_back(std::make_shared<const Pod>(pod));
  return Observe(MakeJob().Replicas("worker", 2).Build(), std::move(children));
}

TEST(Observe, OursIsWhatWeControlWithOurLabelsAndTheRightName) {
  const Observed observed = See(MakePod(Role::kWorker, 1).Build());
  EXPECT_THAT(observed.pods, SizeIs(1));
  EXPECT_TRUE(observed.pods.contains({Role::kWorker, 1}));
}

TEST(Observe, AnOrphanWithOurLabelsAndARightNameIsToBeAdopted) {
  Pod pod = MakePod(Role::kWorker, 1).Build();
  pod.meta.controller = {};
  EXPECT_THAT(See(pod).adopt, SizeIs(1));
  pod.meta.deletion_time = kStart;
  EXPECT_THAT(See(pod).adopt, IsEmpty()) << "it is about to go";
  EXPECT_THAT(See(pod).leftovers, SizeIs(1));
}

TEST(Observe, AChildWhoseLabelsWereChangedIsToBeReleased) {
  Pod pod = MakePod(Role::kWorker, 1).Build();
  pod.meta.labels.index = "0";
  EXPECT_THAT(See(pod).release, SizeIs(1));
  pod.meta.labels.index = "01";
  EXPECT_THAT(See(pod).release, SizeIs(1));
}

TEST(Observe, AStrangersObjectIsTakenAndNamed) {
  Pod pod = MakePod(Role::kWorker, 1).Build();
  pod.meta.controller = {"ReplicaSet", "web", "other"};
  const Observed observed = See(pod);
  EXPECT_THAT(observed.pods, IsEmpty());
  EXPECT_EQ(observed.taken.at({ChildKind::kPod, "mnist-worker-1"}), "controlled by ReplicaSet web");
}

TEST(Observe, WhatAnEarlierJobOfThisNameLeftIsWaitedFor) {
  Pod pod = MakePod(Role::kWorker, 1).Build();
  pod.meta.controller.uid = "earlier-uid";
  pod.meta.labels.job_uid = "earlier-uid";
  const Observed observed = See(pod);
  EXPECT_THAT(observed.leftovers, SizeIs(1));
  EXPECT_THAT(observed.taken, IsEmpty());
}

TEST(IndexSet, ReadsWhatItWrote) {
  for (const std::string text : {"", "0", "0-3", "0-3,5", "1,3,5-7"}) EXPECT_EQ(FormatIndexes(ParseIndexes(text, 10)), text);
}

TEST(IndexSet, HostileTextReadsAsFarAsItMakesSense) {
  EXPECT_EQ(FormatIndexes(ParseIndexes("0-999999999", 4)), "0-3");
  EXPECT_EQ(FormatIndexes(ParseIndexes("1,x,2", 4)), "1");
  EXPECT_EQ(FormatIndexes(ParseIndexes("-5", 4)), "");
  EXPECT_EQ(FormatIndexes(ParseIndexes("3-1,2", 4)), "2");
  EXPECT_EQ(FormatIndexes(ParseIndexes("99999999999999999999", 4)), "");
}

TEST(Observed, ChangedLabelsWakeTheJob) {
  const Pod before = MakePod(Role::kWorker, 0).Ready().Build();
  Pod after = before;
  EXPECT_TRUE(SameForPlan(before, after));
  after.meta.labels.index = "1";
  EXPECT_FALSE(SameForPlan(before, after));
}

TEST(Observed, ADeviceThatGetsUnhealthyWakesTheJob) {
  const Pod before = MakePod(Role::kWorker, 0).Ready().Build();
  Pod after = before;
  after.unhealthy_device = "nvidia.com/gpu GPU-0";
  EXPECT_FALSE(SameForPlan(before, after));
}

TEST(Observed, ANodeIsDownForOneOfThreeReasons) {
  Node node;
  node.ready = true;
  EXPECT_FALSE(DownState(&node));
  node.ready = false;
  EXPECT_EQ(DownState(&node), NodeDown::kNotReady);
  node.out_of_service = true;
  EXPECT_EQ(DownState(&node), NodeDown::kOutOfService);
  EXPECT_EQ(DownState(nullptr), NodeDown::kGone);
}

}  // namespace
}  // namespace trainyard::control
