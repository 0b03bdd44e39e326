// The sentence that people read in `kubectl get tj` and `describe` for the failures that happen
// most: its cause and the next step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "operator/plan/conditions.h"
#include "operator/plan/test_world.h"

namespace trainyard::control {
namespace {

using ::testing::HasSubstr;

MakeJob Job() { return MakeJob().Replicas("ps", 1).Replicas("worker", 2).Restart("worker", "ExitCode").Policy("startPolicy", "Any"); }

// Something happens to the pod of worker-1.
void Worker1(World& world, const std::function<void(Pod&)>& change) { world.ChangePod(Role::kWorker, 1, change); }

void Waits(Pod& pod, const std::string& reason, const std::string& message) {
  pod.scheduler_spoke = true;
  pod.taken_at = kStart;
  pod.containers = {{.name = "trainer", .waiting_reason = reason, .waiting_message = message}};
}

void Unschedulable(Pod& pod, const std::string& message) {
  pod.node.clear();
  pod.scheduler_spoke = true;
  pod.unschedulable = message;
}

void Ends(Pod& pod, int code, const std::string& reason, const std::string& message) {
  pod.phase = PodPhase::kFailed;
  pod.ready = false;
  pod.containers = {{.name = "trainer"}};
  pod.containers[0].terminated = Termination{.exit_code = code, .reason = reason, .message = message};
}

struct Case {
  const char* name;
  MakeJob job;
  std::function<void(World&)> happens;  // to a job whose pods all run
  JobPhase phase;
  std::string_view condition;
  std::vector<std::string> words;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

class Messages : public testing::TestWithParam<Case> {};

TEST_P(Messages, NameTheCauseAndTheNextStep) {
  World world(GetParam().job);
  world.RunsReady();
  GetParam().happens(world);
  world.Settle();
  const TrainingJobStatus& status = world.status();
  EXPECT_EQ(status.phase, GetParam().phase);
  const Condition* condition = status.Find(GetParam().condition);
  ASSERT_NE(condition, nullptr);
  EXPECT_TRUE(condition->status);
  for (const std::string& words : GetParam().words) {
    EXPECT_THAT(status.message, HasSubstr(words)) << "kubectl get tj";
    EXPECT_THAT(condition->message, HasSubstr(words)) << "kubectl describe tj";
  }
  EXPECT_LE(status.message.size(), 1024U);
}

INSTANTIATE_TEST_SUITE_P(
    TypicalFailures, Messages,
    testing::Values(
        Case{"ImageMissing",
             Job(),
             [](World& world) {
               Worker1(world, [](Pod& pod) {
                 pod = MakePod(Role::kWorker, 1).Uid(pod.meta.uid).Build();
                 Waits(pod, "ImagePullBackOff", "Back-off pulling image \"nope:1\"");
               });
               world.Passes(absl::Minutes(1));
             },
             JobPhase::kRunning,
             kStalled,
             {"worker-1 cannot start: it cannot pull its image", "nope:1", "correct the image in spec.image or spec.worker.template"}},
        Case{"NoNodeFits",
             Job(),
             [](World& world) {
               Worker1(world, [](Pod& pod) {
                 pod = MakePod(Role::kWorker, 1).Uid(pod.meta.uid).Build();
                 Unschedulable(pod, "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.");
               });
               world.Passes(absl::Minutes(1));
             },
             JobPhase::kRunning,
             kStalled,
             {"worker-1 cannot start: no node takes it: all 3 nodes lack nvidia.com/gpu; request less", "spec.worker.resources",
              "add nodes", "kubectl describe nodes shows how many nvidia.com/gpu each node has"}},
        Case{"ClaimMissing",
             Job(),
             [](World& world) {
               Worker1(world, [](Pod& pod) {
                 pod = MakePod(Role::kWorker, 1).Uid(pod.meta.uid).Build();
                 Unschedulable(pod, "persistentvolumeclaim \"data\" not found");
               });
               world.Passes(absl::Minutes(1));
             },
             JobPhase::kRunning,
             kStalled,
             {"persistentvolumeclaim \"data\" not found; create that PersistentVolumeClaim in namespace default"}},
        Case{"InitContainerFails",
             Job().Policy("backoffLimit", 0),
             [](World& world) {
               Worker1(world, [](Pod& pod) {
                 pod = MakePod(Role::kWorker, 1).Uid(pod.meta.uid).Build();
                 Waits(pod, "PodInitializing", "");
                 pod.phase = PodPhase::kFailed;  // restartPolicy Never
                 pod.init_containers = {{.name = "fetch"}};
                 pod.init_containers[0].terminated = Termination{.exit_code = 2, .reason = "Error", .message = "404 Not Found\n"};
               });
             },
             JobPhase::kFailed,
             kFailed,
             {"worker-1 failed, and the job has no restarts",
              "(kubectl logs mnist-worker-1 -n default -c fetch; then correct the job, or raise runPolicy.backoffLimit)",
              "init container fetch ended with exit code 2 (Error): 404 Not Found"}},
        Case{"InitContainerFailsAgainAndAgain",
             Job().Restart("worker", "OnFailure"),
             [](World& world) {
               Worker1(world, [](Pod& pod) {
                 pod = MakePod(Role::kWorker, 1).Uid(pod.meta.uid).Build();
                 Waits(pod, "PodInitializing", "");
                 pod.init_containers = {{.name = "fetch", .waiting_reason = "CrashLoopBackOff"}};
                 pod.init_containers[0].last_terminated = Termination{.exit_code = 2, .reason = "Error", .message = "404 Not Found\n"};
               });
               world.Passes(absl::Minutes(1));
             },
             JobPhase::kRunning,
             kStalled,
             {"worker-1 cannot start: init container fetch ends with exit code 2 (Error): 404 Not Found",
              "kubectl logs mnist-worker-1 -n default -c fetch"}},
        Case{"InitContainerFailedAndTheKubeletTriesItAgain",
             Job().Restart("worker", "OnFailure"),
             [](World& world) {
               Worker1(world, [](Pod& pod) {
                 pod = MakePod(Role::kWorker, 1).Uid(pod.meta.uid).Build();
                 Waits(pod, "PodInitializing", "");
                 pod.init_restarts = 1;
                 pod.init_containers = {{.name = "fetch", .restart_count = 1, .running_since = kStart}};
                 pod.init_containers[0].last_terminated = Termination{.exit_code = 2, .reason = "Error", .message = "404 Not Found\n"};
               });
             },
             JobPhase::kRestarting,
             kRestarting,
             {"; worker-1's init container fetch ended with exit code 2 (Error); "
              "kubectl logs mnist-worker-1 -n default -c fetch tells more: 404 Not Found"}},
        Case{"InitContainerFailedAndItsPodIsMadeAgain",
             Job(),
             [](World& world) {
               Worker1(world, [](Pod& pod) {
                 pod = MakePod(Role::kWorker, 1).Uid(pod.meta.uid).Build();
                 Waits(pod, "PodInitializing", "");
                 pod.phase = PodPhase::kFailed;
                 pod.init_containers = {{.name = "fetch"}};
                 pod.init_containers[0].terminated = Termination{.exit_code = 2, .reason = "Error", .message = "404 Not Found\n"};
               });
             },
             JobPhase::kRestarting,
             kRestarting,
             {"; worker-1's init container fetch ended with exit code 2 (Error); "
              "kubectl get tj mnist -n default -o jsonpath={.status.failure} tells more: 404 Not Found"}},
        Case{"QuotaExhausted",
             Job(),
             [](World& world) {
               world.Edits(Job().Replicas("worker", 4));
               world.extra.refusal = Refusal{.child = {ChildKind::kPod, "mnist-worker-2", "", "", ReplicaId{Role::kWorker, 2}},
                                             .count = 2,
                                             .words = "exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3",
                                             .wait = absl::Hours(1)};
             },
             JobPhase::kRunning,
             kStalled,
             {"2 Pods cannot be created, the API server says: exceeded quota: small", "raise the quota of namespace default"}},
        Case{"NodeLost",
             Job(),
             [](World& world) {
               world.extra.down_nodes = {{"node-1", NodeDown::kNotReady}};
               Worker1(world, [](Pod& pod) {
                 pod.node = "node-1";
                 pod.ready = false;
                 pod.meta.deletion_time = kStart;
               });
               world.Passes(absl::Minutes(1));
             },
             JobPhase::kRestarting,
             kStalled,
             {"worker-1 has been Terminating", "node node-1, which is not Ready", "if the machine is off, delete the node"}},
        Case{"BadConfiguration",
             Job(),
             [](World& world) {
               Worker1(world,
                       [](Pod& pod) { Ends(pod, 2, "Error", "spec.training.optimizer.learningrate: did you mean \"learningRate\"?\n"); });
             },
             JobPhase::kFailed,
             kFailed,
             {"worker-1 failed, and a restart does not cure that",
              "(kubectl logs mnist-worker-1 -n default; then correct the job, or change runPolicy.exitCodes)", "exit code 2 (Error)",
              "did you mean \"learningRate\"?"}},
        Case{"OutOfMemory",
             Job().Set("/spec/worker/resources", {{"limits", {{"memory", "1Gi"}}}}).Policy("backoffLimit", 0),
             [](World& world) { Worker1(world, [](Pod& pod) { Ends(pod, 137, "OOMKilled", ""); }); },
             JobPhase::kFailed,
             kFailed,
             {"worker-1 failed", "OOMKilled", "spec.worker.resources.limits.memory", "found 1Gi, raise it"}},
        Case{"RestartsSpent",
             Job().Policy("backoffLimit", 0),
             [](World& world) { Worker1(world, [](Pod& pod) { Ends(pod, 139, "Error", "segmentation fault in conv1\n"); }); },
             JobPhase::kFailed,
             kFailed,
             {"worker-1 failed, and the job has no restarts",
              "(kubectl logs mnist-worker-1 -n default; then correct the job, or raise runPolicy.backoffLimit)", "exit code 139 (Error)",
              "segmentation fault in conv1"}},
        Case{"DeadlinePassed",
             Job().Policy("activeDeadlineSeconds", 60),
             [](World& world) { world.Passes(absl::Minutes(2)); },
             JobPhase::kFailed,
             kFailed,
             {"longer than runPolicy.activeDeadlineSeconds 60", "raise it"}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Messages, OfAnInvalidSpecNameTheFieldAndWhatToDo) {
  World world(Job().Template("worker", {{"spec", {{"containers", {{{"name", "trainer"}, {"env", {{"LR", "0.1"}}}}}}}}}));
  world.Settle();
  EXPECT_EQ(world.status().phase, JobPhase::kInvalid);
  EXPECT_THAT(world.status().message, HasSubstr("spec.worker.template.spec.containers[0].env: found {\"LR\":\"0.1\"}, expected a list"));
  EXPECT_EQ(world.status().Find(kInvalid)->message, world.status().message);
}

TEST(Messages, OfAnInitContainerThatWasTriedAgainWithSuccessSayNothingOfIt) {
  World world(Job().Restart("worker", "OnFailure"));
  world.RunsReady();
  const auto tried_again = [&](const ContainerStatus& fetch) {
    Worker1(world, [&](Pod& pod) {
      pod = MakePod(Role::kWorker, 1).Uid(pod.meta.uid).Build();
      Waits(pod, "PodInitializing", "");
      pod.init_containers = {fetch};
      pod.init_restarts = fetch.restart_count;
      pod.init_containers[0].last_terminated = Termination{.exit_code = 2};
    });
    world.Settle();
    return world.status().message;
  };
  EXPECT_EQ(tried_again({.name = "fetch", .ready = true, .terminated = Termination{.exit_code = 0}}), "waits for worker-1");
  EXPECT_THAT(tried_again({.name = "fetch", .restart_count = 1, .running_since = kStart}), HasSubstr("init container fetch ended"));
  EXPECT_EQ(tried_again({.name = "fetch", .ready = true, .terminated = Termination{.exit_code = 0}}), "waits for worker-1");
  EXPECT_EQ(tried_again({.name = "sidecar", .ready = true, .running_since = kStart}), "waits for worker-1");
}

TEST(Messages, OfAnInitContainersFailureLastUntilItsReplicaIsReady) {
  World world(Job());
  world.RunsReady();
  Worker1(world, [](Pod& pod) {
    pod.phase = PodPhase::kFailed;
    pod.ready = false;
    pod.containers = {{.name = "trainer", .waiting_reason = "PodInitializing"}};
    pod.init_containers = {{.name = "fetch", .terminated = Termination{.exit_code = 2, .message = "404 Not Found"}}};
  });
  world.Settle().Passes(absl::Seconds(20)).Settle();
  const std::string told = "worker-1's init container fetch ended with exit code 2";
  EXPECT_THAT(world.status().message, HasSubstr("waits for worker-1; " + told));
  world.Exits(Role::kWorker, 0, 137).Settle();
  EXPECT_THAT(world.status().message, HasSubstr("waits for worker-0, worker-1; " + told));
  world.Has(MakePod(Role::kWorker, 1).Ready()).Settle();
  EXPECT_EQ(world.status().message, "waits for worker-0");
  EXPECT_EQ(world.status().Find(kRestarting)->message, "worker-0 starts again");
}

TEST(Messages, FourHundredTakenNamesAreStillOneSentence) {
  World world(Job().Replicas("worker", 400));
  for (int i = 0; i < 400; ++i) world.extra.taken[{ChildKind::kPod, "mnist-worker-" + std::to_string(i)}] = "not controlled by this job";
  world.Look();
  EXPECT_LE(world.status().message.size(), 1024U);
  EXPECT_THAT(world.status().message, HasSubstr("and 397 more; delete or rename it"));
}

TEST(Messages, ADisruptionNamesNodeAndReasonAtOnce) {
  World world(Job());
  world.RunsReady().ChangePod(Role::kWorker, 1, [](Pod& pod) {
    pod.node = "node-7";
    pod.disruption_target = true;
    pod.disruption = "DeletionByTaintManager: Taint manager: deleting due to NoExecute taint";
    pod.meta.deletion_time = kStart;
  });
  const Plan plan = world.Look();
  ASSERT_THAT(EventReasons(plan), testing::ElementsAre("Disrupted"));
  EXPECT_THAT(plan.events[0].note, HasSubstr("worker-1 on node node-7 is recreated"));
  EXPECT_THAT(plan.events[0].note, HasSubstr("DeletionByTaintManager: Taint manager: deleting due to NoExecute taint"));
}

TEST(Messages, ThousandDisruptionsAreOneEvent) {
  World world(Job().Replicas("worker", 1000));
  world.RunsReady();
  for (int i = 0; i < 1000; ++i) world.Loses(Role::kWorker, i);
  const Plan plan = world.Look();
  ASSERT_THAT(EventReasons(plan), testing::ElementsAre("Disrupted"));
  EXPECT_THAT(plan.events[0].note, HasSubstr("1000 replicas; worker-0 is recreated"));
}

}  // namespace
}  // namespace trainyard::control
