#include "trainer/kvstore/worker_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace trainyard::engine {
namespace {

constexpr int kPlaces = 8;

// Of one part.
WorkerSteps StepsOf(int workers) { return {KvMode::kAsync, workers, kPlaces, /*trainable_parts=*/1}; }

void Push(WorkerSteps& steps, int worker, int64_t from, int64_t until) {
  for (int64_t step = from; step < until; ++step) steps.CountPush(worker, step);
}

TEST(WorkerSteps, AStepIsWholeWhenEachPartWasApplied) {
  WorkerSteps steps(KvMode::kAsync, 1, kPlaces, /*trainable_parts=*/3);
  steps.Begin(0);
  for (const int whole : {0, 0, 1, 1, 1, 2}) {
    steps.CountPush(0, whole == 2 ? 1 : steps.NextStepOf(0));
    EXPECT_EQ(steps.global_step(), whole);
  }
}

TEST(WorkerSteps, AResumedTrainingSharesItsStepsEvenly) {
  WorkerSteps steps = StepsOf(3);
  steps.Begin(8);
  EXPECT_EQ(steps.global_step(), 8);
  EXPECT_EQ(steps.NextStepOf(0), 3);
  EXPECT_EQ(steps.NextStepOf(1), 3);
  EXPECT_EQ(steps.NextStepOf(2), 2);
  for (int worker = 0; worker < 3; ++worker) Push(steps, worker, steps.NextStepOf(worker), 10);
  EXPECT_EQ(steps.global_step(), 30);
}

TEST(WorkerSteps, AWordBeforeTheFillIsCounted) {
  WorkerSteps steps = StepsOf(3);
  steps.SetPosition(1, 9);
  steps.SetPosition(0, 0);
  steps.Begin(2);  // the chief has heard of little
  EXPECT_EQ(steps.NextStepOf(0), 0);
  EXPECT_EQ(steps.NextStepOf(1), 9);
  steps.SetPosition(2, 4);
  EXPECT_EQ(steps.global_step(), 13);
  Push(steps, 0, 0, 10);
  Push(steps, 1, 9, 10);
  Push(steps, 2, 4, 10);
  EXPECT_EQ(steps.global_step(), 30);
}

TEST(WorkerSteps, AWordAfterTheFillReplacesTheAssumedShare) {
  WorkerSteps steps = StepsOf(2);
  steps.Begin(10);
  EXPECT_EQ(steps.global_step(), 10);
  EXPECT_FALSE(steps.Knows(0));
  steps.SetPosition(0, 9);
  EXPECT_TRUE(steps.Knows(0));
  EXPECT_EQ(steps.global_step(), 14);
  steps.SetPosition(1, 1);
  EXPECT_EQ(steps.global_step(), 10);
  EXPECT_EQ(steps.NextStepOf(1), 1);
  steps.SetPosition(0, 4);
  EXPECT_EQ(steps.NextStepOf(0), 9) << "an old word";
  EXPECT_EQ(steps.SeenBy(0), steps.SeenBy(1)) << "what is counted anew makes nobody stale";
}

TEST(WorkerSteps, StepsThatAServerMissedAreCounted) {
  WorkerSteps steps = StepsOf(2);
  steps.Begin(0);
  Push(steps, 0, 0, 3);
  steps.CountPush(0, 5);
  EXPECT_EQ(steps.global_step(), 6);
}

TEST(WorkerSteps, AWorkerThatCameLaterIsCountedFromThereOn) {
  WorkerSteps steps = StepsOf(2);
  steps.Begin(0);
  Push(steps, 0, 0, 5);
  Push(steps, 1, 0, 4);
  EXPECT_EQ(steps.NextStepOf(3), 4);
  const std::vector<int64_t> two = {10, 10};
  const std::vector<int64_t> three = {10, 10, -1, 7};
  EXPECT_EQ(steps.PlannedBy(two), 20);
  EXPECT_EQ(steps.PlannedBy(three), 23);
  Push(steps, 3, 4, 6);
  EXPECT_EQ(steps.global_step(), 11);
  EXPECT_EQ(steps.PlannedBy(three), 23);
  EXPECT_EQ(steps.PlannedBy(two), 22) << "it was taken away after two steps";
}

TEST(WorkerSteps, AServerThatIsLostFromAScaledJobBelievesTheChief) {
  WorkerSteps steps = StepsOf(1);
  steps.SetPosition(0, 10);
  steps.SetPosition(1, 9);  // it began at some step that nobody remembers
  steps.Begin(14);
  EXPECT_EQ(steps.global_step(), 14);
  const std::vector<int64_t> ends = {12, 12};
  EXPECT_EQ(steps.PlannedBy(ends), 19);
}

}  // namespace
}  // namespace trainyard::engine
