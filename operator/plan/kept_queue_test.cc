#include "operator/plan/kept_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/plan/test_world.h"

namespace trainyard::control {
namespace {

TrainingJob Labelled(const std::string& queue) {
  MakeJob job = OneServerTwoWorkers();
  if (!queue.empty()) job.Set("/metadata/labels", {{"kueue.x-k8s.io/queue-name", queue}});
  return job.Build();
}

std::optional<TrainingJob> With(const std::string& label, const std::string& of_pods) {
  Pod pod;
  pod.kueue_queue = of_pods;
  return InQueueOfItsPods(Labelled(label), &pod);
}

TEST(KeptQueue, AJobWithoutPodsAndAJobInTheQueueOfItsPodsAreAsTheyAre) {
  EXPECT_FALSE(InQueueOfItsPods(Labelled("research"), nullptr));
  EXPECT_FALSE(With("research", "research"));
  EXPECT_FALSE(With("", ""));
}

TEST(KeptQueue, AnEditedLabelCountsOnceThePodsAreGoneAndTheJobSaysSo) {
  const auto scheduling = [](const std::string& label, const std::string& of_pods) {
    return With(label, of_pods)->spec.run_policy.scheduling;
  };
  EXPECT_EQ(scheduling("other", "research").kueue_queue, "research");
  EXPECT_EQ(DescribeKeptQueue(scheduling("other", "research")),
            "its pods stay in queue research of Kueue, though its label names queue other of Kueue now: suspend the job and resume it to "
            "follow the label");
  EXPECT_EQ(scheduling("", "research").kueue_queue, "research");
  EXPECT_THAT(DescribeKeptQueue(scheduling("", "research")), testing::HasSubstr("its label names no queue of Kueue now"));
  EXPECT_EQ(scheduling("research", "").kueue_queue, "");
  EXPECT_THAT(DescribeKeptQueue(scheduling("research", "")), testing::HasSubstr("its pods stay in no queue of Kueue"));
  EXPECT_EQ(DescribeKeptQueue(Labelled("research").spec.run_policy.scheduling), "");
}

}  // namespace
}  // namespace trainyard::control
