#include "operator/plan/start_obstacle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/children/test_makers.h"

namespace trainyard::control {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const ReplicaId kWorker1{Role::kWorker, 1};

class StartObstacleTest : public testing::Test {
 protected:
  StartObstacleTest() {
    pod_.scheduler_spoke = true;
    pod_.taken_at = kStart + absl::Seconds(5);
  }
  std::optional<Obstacle> Find() { return StartObstacle(kWorker1, pod_, {}); }
  ContainerStatus& Trainer() {
    if (pod_.containers.empty()) pod_.containers.push_back({.name = "trainer"});
    return pod_.containers[0];
  }
  ContainerStatus& Init() {
    if (pod_.init_containers.empty()) pod_.init_containers.push_back({.name = "fetch"});
    return pod_.init_containers[0];
  }
  void Expect(const std::string& reason, const std::string& what, const std::string& step) {
    const std::optional<Obstacle> found = Find();
    ASSERT_TRUE(found) << what;
    EXPECT_EQ(found->reason, reason);
    EXPECT_THAT(found->message, AllOf(HasSubstr(what), HasSubstr(step)));
  }

  Pod pod_ = MakePod(Role::kWorker, 1).Build();
};

TEST_F(StartObstacleTest, BothWordsOfAnImageThatCannotBePulledAreOneReason) {
  for (const char* reason : {"ErrImagePull", "ImagePullBackOff"}) {
    Trainer().waiting_reason = reason;
    Trainer().waiting_message = "Back-off pulling image \"nope:1\"";
    Expect("ImagePullBackOff", "it cannot pull its image: Back-off pulling image \"nope:1\"; ", "correct the image in spec.image");
    EXPECT_EQ(Find()->stalled_at, kStart + absl::Seconds(30));
  }
}

TEST_F(StartObstacleTest, ASidecarIsNamed) {
  Trainer().running_since = kStart;
  pod_.containers.push_back(
      {.name = "proxy", .waiting_reason = "CreateContainerConfigError", .waiting_message = "secret \"key\" not found"});
  Expect("CreateContainerConfigError", "container proxy lacks an object that its configuration names: secret \"key\" not found",
         "create it in namespace default, or correct spec.worker.template");
}

TEST_F(StartObstacleTest, AnInitContainerThatCannotPullOrFailsIsNamed) {
  Trainer().waiting_reason = "PodInitializing";
  Init().waiting_reason = "ErrImagePull";
  Init().waiting_message = "not found";
  Expect("ImagePullBackOff", "init container fetch cannot pull its image: not found", "correct the image");
  Init() = {.name = "fetch", .restart_count = 3, .waiting_reason = "CrashLoopBackOff"};
  Init().last_terminated = Termination{.exit_code = 2, .reason = "Error", .message = "no route to host\n"};
  Expect("InitContainerFailed", "init container fetch ends with exit code 2 (Error): no route to host",
         "kubectl logs mnist-worker-1 -n default -c fetch");
}

TEST_F(StartObstacleTest, AnInitContainerThatRunsOrHasRunHoldsNothingUp) {
  Trainer().waiting_reason = "PodInitializing";
  Init().running_since = kStart;
  Init().last_terminated = Termination{.exit_code = 2};
  EXPECT_FALSE(Find()) << "a download may take long";
  Init() = {.name = "fetch"};
  Init().terminated = Termination{.exit_code = 0, .finished_at = kStart + absl::Minutes(30)};
  EXPECT_EQ(Find()->stalled_at, kStart + absl::Minutes(32)) << "only since then is the trainer created";
}

TEST_F(StartObstacleTest, ContainersThatAreStillCreatedTwoMinutesAfterTheNodeTookThemAreTold) {
  Trainer().waiting_reason = "ContainerCreating";
  Expect("ContainerCreating", "node node-1 still creates its containers", "kubectl describe pod mnist-worker-1 -n default");
  EXPECT_EQ(Find()->stalled_at, kStart + absl::Seconds(125));
  Trainer().running_since = kStart;
  EXPECT_FALSE(Find());
}

TEST_F(StartObstacleTest, APodThatNoNodeTakesSaysWhatToChange) {
  struct Case {
    const char* said;
    const char* step;
  };
  const Case cases[] = {
      {"0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available: 3 Preemption is not helpful for "
       "scheduling.",
       "all 3 nodes lack nvidia.com/gpu; request less (spec.worker.resources, spec.worker.template), or add nodes; kubectl describe nodes "
       "shows how many nvidia.com/gpu each node has, none where no device plugin runs"},
      {"0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available: 3 No preemption victims found for "
       "incoming pod.",
       "all 3 nodes lack nvidia.com/gpu; it starts when other pods free nvidia.com/gpu; or request less"},
      {"0/3 nodes are available: 3 Insufficient memory.", "all 3 nodes lack memory; request less (spec.worker.resources, "},
      {"0/1 nodes are available: 1 node(s) were unschedulable.",
       "kubectl uncordon NODE lets a cordoned node take pods again; or request less"},
      {"0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu.", "; kubectl uncordon NODE lets a cordoned node"},
      {"persistentvolumeclaim \"data\" not found", "create that PersistentVolumeClaim in namespace default"},
      {"0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.", "kubectl describe pvc -n default"},
      {"0/1 nodes are available: 1 node(s) had untolerated taint(s).",
       "change nodeSelector, affinity or tolerations in spec.worker.template"},
  };
  pod_.node.clear();
  for (const Case& one : cases) {
    pod_.unschedulable = one.said;
    Expect("Unschedulable", "no node takes it: ", one.step);
  }
}

TEST_F(StartObstacleTest, AMissingSchedulerIsNamedAndAGateIsNobodysFault) {
  pod_.node.clear();
  EXPECT_FALSE(Find()) << "PodScheduled is False for a gate";
  pod_.scheduler_spoke = false;
  pod_.scheduler = "volcano";
  Expect("Unschedulable", "scheduler \"volcano\" has not looked at it", "install that scheduler");
  EXPECT_EQ(Find()->stalled_at, kStart + absl::Minutes(2));
}

TEST_F(StartObstacleTest, WordsWithoutEndAreCut) {
  pod_.node.clear();
  pod_.unschedulable = std::string(100'000, 'x');
  EXPECT_LT(Find()->message.size(), 1000U);
}

TEST_F(StartObstacleTest, APodThatIsGoingHasNoObstacle) {
  Trainer().waiting_reason = "ErrImagePull";
  pod_.meta.deletion_time = kStart;
  EXPECT_FALSE(Find());
}

}  // namespace
}  // namespace trainyard::control
