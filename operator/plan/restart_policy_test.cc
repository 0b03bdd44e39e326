#include "operator/plan/restart_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "operator/plan/conditions.h"
#include "operator/plan/test_world.h"

namespace trainyard::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

MakeJob Job(const char* policy, int backoff_limit = 6) {
  return MakeJob().Replicas("worker", 2).Claim("data").Restart("worker", policy).Policy("backoffLimit", backoff_limit);
}

TEST(RestartPolicy, TheDefaultTableFailsBelow128AndRestartsFromThere) {
  const RunPolicy policy;
  EXPECT_EQ(ActionFor(policy, 1), ExitAction::kFail);
  EXPECT_EQ(ActionFor(policy, 127), ExitAction::kFail);
  EXPECT_EQ(ActionFor(policy, 128), ExitAction::kRestart);
  EXPECT_EQ(ActionFor(policy, 200), ExitAction::kIgnore) << "a peer was absent: nobody's failure";
  EXPECT_EQ(ActionFor(policy, 201), ExitAction::kRestart);
  EXPECT_EQ(ActionFor(policy, 255), ExitAction::kRestart);
}

TEST(RestartPolicy, TheFirstMatchingRuleWins) {
  RunPolicy policy;
  policy.exit_codes = {{3, 3, ExitAction::kIgnore}, {1, 10, ExitAction::kRestart}};
  EXPECT_EQ(ActionFor(policy, 3), ExitAction::kIgnore);
  EXPECT_EQ(ActionFor(policy, 4), ExitAction::kRestart);
  EXPECT_EQ(ActionFor(policy, 11), ExitAction::kFail);
}

TEST(RestartPolicy, RecreationsWaitZeroOneTwoFourUpToFiveMinutes) {
  EXPECT_EQ(RecreationDelay(0), absl::ZeroDuration());
  EXPECT_EQ(RecreationDelay(1), absl::Seconds(1));
  EXPECT_EQ(RecreationDelay(2), absl::Seconds(2));
  EXPECT_EQ(RecreationDelay(3), absl::Seconds(4));
  EXPECT_EQ(RecreationDelay(9), absl::Seconds(256));
  EXPECT_EQ(RecreationDelay(10), absl::Minutes(5));
  EXPECT_EQ(RecreationDelay(1000), absl::Minutes(5));
}

TEST(RestartPolicy, ANeverReplicaThatFailsFailsTheJob) {
  World world(Job("Never"));
  world.RunsReady().Exits(Role::kWorker, 1, 3, "cannot open data").Look();
  EXPECT_EQ(world.status().Find(kFailed)->reason, "ReplicaFailed");
  EXPECT_EQ(world.status().failure->replica, "worker-1");
  EXPECT_EQ(world.status().failure->exit_code, 3);
  EXPECT_EQ(world.status().failure->message, "cannot open data");
  EXPECT_EQ(world.status().failure->node, "node-1");
}

TEST(RestartPolicy, AnExitCodeThatSaysRestartIsCountedOnceBeforeItsPodIsDeletedHoweverOftenTheOperatorDies) {
  World world(Job("ExitCode"));
  world.RunsReady().Exits(Role::kWorker, 1, 137);
  const std::string uid = world.pods().at({Role::kWorker, 1})->meta.uid;
  TrainingJob job = world.job();
  for (int death = 0; death < 3; ++death) {  // the status is written, the pod is still there
    const Plan plan = MakePlan(job, world.Seen(), world.now());
    EXPECT_THAT(Deleted(plan), ElementsAre("mnist-worker-1"));
    if (plan.status) job.status = *plan.status;
    EXPECT_EQ(job.status.restarts, 1);
  }
  world.Settle();
  EXPECT_EQ(world.status().restarts, 1);
  EXPECT_EQ(world.status().failure->signal, 9);
  EXPECT_NE(world.pods().at({Role::kWorker, 1})->meta.uid, uid);
  EXPECT_EQ(world.status().phase, JobPhase::kRestarting);
  world.RunsReady();
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
  EXPECT_FALSE(world.status().IsTrue(kRestarting));
  EXPECT_EQ(world.status().restarts, 1);
}

TEST(RestartPolicy, ADisruptedReplicaThatHasRunForTenMinutesIsForgottenAndAnotherKeepsWhatItSpent) {
  World world(Job("ExitCode"));
  world.RunsReady().Exits(Role::kWorker, 1, 137).Loses(Role::kWorker, 0).Settle();
  world.RunsReady();
  EXPECT_EQ(world.status().restart_records.size(), 2U);
  for (const RestartRecord& record : world.status().restart_records)
    EXPECT_EQ(record.pod_uid, "") << "no pod needs to be told from another";
  world.Passes(absl::Minutes(11)).Look();
  ASSERT_EQ(world.status().restart_records.size(), 1U);
  EXPECT_EQ(world.status().restart_records[0], (RestartRecord{.replica = "worker-1", .restarts = 1}));
  EXPECT_EQ(world.status().restarts, 1);
  EXPECT_EQ(world.status().disruptions, 1);
}

TEST(RestartPolicy, ReplicasThatAreDeletedOneAfterTheOtherAreAllCounted) {
  World world(Job("ExitCode"));
  world.RunsReady().Loses(Role::kWorker, 0).Look();
  EXPECT_EQ(world.status().disruptions, 1);
  world.Loses(Role::kWorker, 1).Look();  // before worker-0 has its new pod in the status
  EXPECT_EQ(world.status().disruptions, 2);
  world.Settle().RunsReady();
  EXPECT_EQ(world.status().disruptions, 2);
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
}

TEST(RestartPolicy, AReplicaThatNeverHadAPodWasNotDeleted) {
  World world(Job("ExitCode"));
  world.Look();
  EXPECT_EQ(world.status().disruptions, 0);
}

TEST(RestartPolicy, AReplicaThatFailedUnseenBeforeTheSuccessIsNotMadeAgainAndNotCounted) {
  World world(Job("ExitCode"));
  world.RunsReady().Exits(Role::kWorker, 1, 137).Exits(Role::kWorker, 0, 0).Look();
  EXPECT_EQ(world.status().phase, JobPhase::kSucceeded);
  EXPECT_EQ(world.status().restarts, 0);
  EXPECT_EQ(world.status().replica_statuses.at(Role::kWorker).restarts, 0);
  EXPECT_EQ(world.status().replica_statuses.at(Role::kWorker).failed, 1);
}

TEST(RestartPolicy, WhatTheKubeletRestartedUnseenBeforeTheSuccessIsCountedByJobAndRole) {
  World world(Job("OnFailure"));
  world.RunsReady();
  world.ChangePod(Role::kWorker, 1, [](Pod& pod) {
    pod.containers[0].restart_count = 2;
    pod.containers[0].last_terminated = Termination{.exit_code = 137};
  });
  world.Exits(Role::kWorker, 0, 0).Look();
  EXPECT_EQ(world.status().phase, JobPhase::kSucceeded);
  EXPECT_EQ(world.status().restarts, 2);
  EXPECT_EQ(world.status().replica_statuses.at(Role::kWorker).restarts, 2);
}

TEST(RestartPolicy, AThousandReplicasThatAreLostAtOnceMakeAStatusBelowAHundredKilobytesAndAreCountedOnce) {
  constexpr int kMany = 1000;
  World world(Job("ExitCode").Replicas("worker", kMany));
  world.RunsReady();
  for (int i = 1; i < kMany; ++i) world.Exits(Role::kWorker, i, 200);
  size_t largest = 0;
  for (int look = 0; look < 6; ++look) {
    world.Look();
    world.Passes(absl::Seconds(2));
    largest = std::max(largest, StatusToJson(world.status()).dump().size());
  }
  EXPECT_LT(largest, 100'000U);
  EXPECT_EQ(world.status().disruptions, kMany - 1);
}

TEST(RestartPolicy, AnEvaluatorIsMadeAgainAndSpendsNothingOfTheJobs) {
  World world(Job("ExitCode", 0).Replicas("evaluator", 1).Restart("evaluator", "ExitCode"));
  world.RunsReady();
  const std::string uid = world.pods().at({Role::kEvaluator, 0})->meta.uid;
  world.Exits(Role::kEvaluator, 0, 137).Settle().RunsReady();
  EXPECT_NE(world.pods().at({Role::kEvaluator, 0})->meta.uid, uid);
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
  EXPECT_EQ(world.status().restarts, 0);
  EXPECT_EQ(world.status().replica_statuses.at(Role::kEvaluator).restarts, 1);
  EXPECT_FALSE(world.status().failure);
}

TEST(RestartPolicy, AnEvaluatorThatIsNotRecreatedFailsNoJob) {
  for (const char* policy : {"Never", "ExitCode"}) {
    World world(Job("ExitCode", 0).Replicas("evaluator", 1).Restart("evaluator", policy));
    world.RunsReady().Exits(Role::kEvaluator, 0, 3, "no eval split");
    const Plan plan = MakePlan(world.job(), world.Seen(), world.now());
    EXPECT_THAT(EventReasons(plan), ElementsAre("EvaluatorFailed"));
    world.Settle();
    EXPECT_EQ(world.status().phase, JobPhase::kRunning) << policy;
    EXPECT_THAT(world.status().message, HasSubstr("all other replicas run and are ready; evaluator-0 failed and is not restarted"));
    EXPECT_THAT(world.status().message, HasSubstr("no eval split"));
    EXPECT_THAT(EventReasons(MakePlan(world.job(), world.Seen(), world.now())), IsEmpty()) << "it is told once";
    EXPECT_EQ(world.status().replica_statuses.at(Role::kEvaluator).failed, 1) << policy;
  }
}

TEST(RestartPolicy, IgnoredExitCodesSpendNothing) {
  World world(Job("ExitCode", 0).Policy("exitCodes", {{{"from", 42}, {"to", 42}, {"action", "Ignore"}}}));
  world.RunsReady().Exits(Role::kWorker, 1, 42).Settle().RunsReady();
  EXPECT_EQ(world.status().restarts, 0);
  EXPECT_EQ(world.status().disruptions, 1);
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
}

TEST(RestartPolicy, WaitingForOnesOwnJobSpendsNothingHoweverOftenAndUnderEveryPolicy) {
  World made_again(Job("ExitCode", 0));
  made_again.RunsReady();
  for (int i = 0; i < 10; ++i) made_again.Exits(Role::kWorker, 1, 200).Settle().Passes(absl::Minutes(5)).RunsReady();
  EXPECT_EQ(made_again.status().phase, JobPhase::kRunning);
  EXPECT_EQ(made_again.status().restarts, 0);
  EXPECT_EQ(made_again.status().disruptions, 10);
  EXPECT_FALSE(made_again.status().failure);

  World in_place(Job("OnFailure", 0));
  in_place.RunsReady();
  const auto restarted = [&](int times, int code) {
    in_place.ChangePod(Role::kWorker, 1, [&](Pod& pod) {
      pod.containers[0].restart_count = times;
      pod.containers[0].last_terminated = Termination{.exit_code = code, .reason = "Error"};
    });
    in_place.Look();
  };
  for (int i = 1; i <= 10; ++i) restarted(i, 200);
  EXPECT_EQ(in_place.status().phase, JobPhase::kRunning);
  EXPECT_EQ(in_place.status().restarts, 0);
  EXPECT_EQ(in_place.status().disruptions, 10);
  EXPECT_TRUE(in_place.Look().Empty()) << "each is counted once";
  restarted(11, 1);
  EXPECT_EQ(in_place.status().Find(kFailed)->reason, "BackoffLimitExceeded") << "a failure still spends";
}

TEST(RestartPolicy, AContainerThatWaitsForItsRestartAfterAnAbsentPeerFailsNoJob) {
  World world(Job("OnFailure", 0));
  world.RunsReady().ChangePod(Role::kWorker, 1, [](Pod& pod) {
    pod.ready = false;
    pod.containers[0] = {.name = "trainer", .terminated = Termination{.exit_code = 200, .reason = "Error"}};
  });
  EXPECT_FALSE(world.Settle().status().Finished());
}

TEST(RestartPolicy, FreeRestartsStayFreeWhenTheirPodIsReplaced) {
  World world(Job("OnFailure", 6));
  world.RunsReady().ChangePod(Role::kWorker, 1, [](Pod& pod) {
    pod.containers[0].restart_count = 3;
    pod.containers[0].last_terminated = Termination{.exit_code = 200};
  });
  world.Look();
  world.ChangePod(Role::kWorker, 1, [](Pod& pod) {
    pod.containers[0].restart_count = 4;
    pod.containers[0].last_terminated = Termination{.exit_code = 137};
  });
  world.Look();
  EXPECT_EQ(world.status().restarts, 1);
  world.Loses(Role::kWorker, 1).Settle().RunsReady();
  EXPECT_EQ(world.status().restarts, 1);
}

TEST(RestartPolicy, WithoutOneTrainyardReplicasFollowTheirExitCodeAndOthersAreRestartedInPlace) {
  World trainyard(MakeJob().Replicas("worker", 1).Claim("data"));
  trainyard.RunsReady().Exits(Role::kWorker, 0, 1).Look();
  EXPECT_EQ(trainyard.status().Find(kFailed)->reason, "ExitCode");
  World other(MakeJob().Framework("TensorFlow").Replicas("worker", 1));
  EXPECT_EQ(other.job().spec.Find(Role::kWorker)->restart_policy, RestartPolicy::kOnFailure);
}

TEST(RestartPolicy, AJobWhoseWorkersWereNeverReadyIsPendingAfterItsServerRestarted) {
  World world(MakeJob().Replicas("ps", 1).Replicas("worker", 1).Claim("data"));
  world.Settle().Has(MakePod(Role::kPs, 0).Ready()).Settle();  // the worker has no node
  world.Exits(Role::kPs, 0, 200).Settle();
  EXPECT_EQ(world.status().phase, JobPhase::kRestarting);
  world.Passes(absl::Seconds(5)).Settle().ChangePod(Role::kPs, 0, [](Pod& pod) {
    pod.phase = PodPhase::kRunning;
    pod.ready = true;
  });
  world.Settle();
  EXPECT_EQ(world.status().phase, JobPhase::kPending);
  EXPECT_THAT(world.status().Find(kRestarting)->message, HasSubstr("the job waits for worker-0"));
}

TEST(RestartPolicy, AFailedJobsMessageEndsWithTheReasonItself) {
  World world(Job("ExitCode"));
  world.RunsReady().Exits(Role::kWorker, 1, 1, "loading\nTraceback:\nValueError: shapes differ\n\n").Look();
  EXPECT_EQ(world.status().message,
            "worker-1 failed, and a restart does not cure that (kubectl logs mnist-worker-1 -n default; then correct the job, or change "
            "runPolicy.exitCodes): exit code 1 (Error): ValueError: shapes differ");
  World spent(Job("ExitCode", 0));
  spent.RunsReady().Exits(Role::kWorker, 1, 143, "stopped").Look();
  EXPECT_EQ(spent.status().message,
            "worker-1 failed, and the job has no restarts (kubectl logs mnist-worker-1 -n default; then correct the job, or raise "
            "runPolicy.backoffLimit): exit code 143 (Error): stopped");
  World chief(Job("ExitCode", 0));
  chief.RunsReady().Exits(Role::kWorker, 0, 143, R"({"step": 12, "totalSteps": 20})").Look();
  EXPECT_THAT(chief.status().message, testing::EndsWith("exit code 143 (Error): stopped at step 12"));
  EXPECT_EQ(chief.status().failure->message, "stopped at step 12");
  World again(Job("ExitCode", 1));
  again.RunsReady().Exits(Role::kWorker, 1, 143).Settle().Passes(absl::Minutes(1)).RunsReady().Exits(Role::kWorker, 1, 143).Look();
  EXPECT_THAT(again.status().message, testing::StartsWith("worker-1 failed, and the job has used its 1 restart ("));
  World never(Job("Never"));
  never.RunsReady().Exits(Role::kWorker, 1, 3, "cannot open data").Look();
  EXPECT_EQ(never.status().message,
            "worker-1 failed, and its restartPolicy is Never (kubectl logs mnist-worker-1 -n default; then correct the job, or change "
            "spec.worker.restartPolicy): exit code 3 (Error): cannot open data");
}

TEST(RestartPolicy, AnOomKillSaysWhichLimitToRaise) {
  const auto message = [](const MakeJob& job) {
    World world(job);
    world.RunsReady().Exits(Role::kWorker, 1, 137).ChangePod(Role::kWorker, 1, [](Pod& pod) {
      Termination end = *pod.containers[0].terminated;
      end.reason = "OOMKilled";
      pod.containers[0].terminated = std::move(end);
    });
    world.Look();
    return world.status().message;
  };
  const nlohmann::json limits = {{"limits", {{"memory", "64Mi"}}}};
  EXPECT_THAT(
      message(Job("ExitCode", 0).Set("/spec/worker/resources", limits)),
      HasSubstr("exit code 137 (OOMKilled); it needs more memory than spec.worker.resources.limits.memory allows: found 64Mi, raise it"));
  const nlohmann::json container = {{"name", "t"}, {"resources", limits}};
  EXPECT_THAT(message(Job("ExitCode", 0).Template("worker", {{"spec", {{"containers", nlohmann::json::array({container})}}}})),
              HasSubstr("spec.worker.template.spec.containers[0].resources.limits.memory"));
  EXPECT_THAT(message(Job("ExitCode", 0)), HasSubstr("set spec.worker.resources.requests.memory"));
}

// The pod of worker-1 ends before its trainer has started.
void FetchFails(World& world, int code, const std::string& reason = "Error") {
  world.ChangePod(Role::kWorker, 1, [&](Pod& pod) {
    pod = MakePod(Role::kWorker, 1).Uid(pod.meta.uid).Waiting("PodInitializing").Build();
    pod.phase = PodPhase::kFailed;
    pod.init_containers = {{.name = "fetch", .terminated = Termination{.exit_code = code, .reason = reason, .message = "404 Not Found\n"}}};
  });
}

TEST(RestartPolicy, TheExitCodeOfAnInitContainerIsNotTheTrainersAndSpendsARestart) {
  for (const int code : {2, 42, 137, 200}) {
    World world(Job("ExitCode", 1).Policy("exitCodes", {{{"from", 42}, {"to", 42}, {"action", "Ignore"}}}));
    world.RunsReady();
    FetchFails(world, code);
    const Plan plan = world.Look();
    EXPECT_EQ(world.status().restarts, 1) << code;
    EXPECT_EQ(world.status().disruptions, 0) << code;
    ASSERT_THAT(EventReasons(plan), ElementsAre("Restarting")) << code;
    EXPECT_THAT(plan.events[0].note, HasSubstr("init container fetch ended with exit code " + std::to_string(code)));
    EXPECT_EQ(world.status().failure->container, "fetch");
    world.RunsReady();
    FetchFails(world, code);
    world.Look();
    EXPECT_EQ(ReasonOf(world, kFailed), "BackoffLimitExceeded") << code;
  }
}

TEST(RestartPolicy, AnInitContainerThatTheKubeletRestartsIsNamed) {
  World world(Job("OnFailure", 0));
  world.RunsReady().ChangePod(Role::kWorker, 1, [](Pod& pod) {
    pod = MakePod(Role::kWorker, 1).Uid(pod.meta.uid).Waiting("PodInitializing").Build();
    pod.init_restarts = 1;
    pod.init_containers = {{.name = "fetch", .restart_count = 1}};
    pod.init_containers[0].last_terminated = Termination{.exit_code = 2, .reason = "Error", .message = "404 Not Found\n"};
  });
  const Plan plan = world.Look();
  ASSERT_THAT(EventReasons(plan), ElementsAre("Restarting", "Failed"));
  EXPECT_THAT(plan.events[0].note, HasSubstr("init container fetch ended with exit code 2 (Error); kubectl logs mnist-worker-1 -n default "
                                             "-c fetch tells more: 404 Not Found"));
  EXPECT_EQ(world.status().message,
            "replicas restarted 1 time, worker-1 last, more than runPolicy.backoffLimit 0 allows (kubectl get tj mnist -n default -o "
            "jsonpath={.status.failure}; then correct the job, or raise that limit): init container fetch ended with exit code 2 (Error): "
            "404 Not Found");
}

TEST(RestartPolicy, AMessageIsBoundedHoweverLongItsNamesAndEndsWithTheReason) {
  World world(Job("ExitCode", 0));
  world.RunsReady();
  FetchFails(world, 2);
  world.ChangePod(Role::kWorker, 1, [](Pod& pod) {
    pod.meta.name = std::string(63, 'n');
    pod.meta.name_space = std::string(63, 's');
    pod.init_containers[0].name = std::string(63, 'c');
    Termination end = *pod.init_containers[0].terminated;
    end.message = "short\n" + std::string(2000, 'x') + "\n";
    pod.init_containers[0].terminated = std::move(end);
  });
  world.Look();
  EXPECT_LT(world.status().message.size(), 1024U);
  EXPECT_THAT(world.status().message, HasSubstr("then correct the job, or raise runPolicy.backoffLimit): init container"));
  EXPECT_THAT(world.status().message, testing::EndsWith(": " + std::string(509, 'x') + "..."));
}

TEST(RestartPolicy, ABackoffLimitThatIsLoweredBelowWhatIsSpentSaysWhatToDo) {
  World world(Job("ExitCode", 2));
  for (int i = 0; i < 2; ++i) world.RunsReady().Exits(Role::kWorker, 1, 143).Settle().Passes(absl::Seconds(10));
  world.RunsReady().Edits(Job("ExitCode", 1)).Look();
  EXPECT_EQ(world.status().message,
            "replicas restarted 2 times, more than runPolicy.backoffLimit 1 allows; correct the job, or raise that limit");
}

TEST(RestartPolicy, OfContainersThatWereRestartedTheNewestFailureIsTold) {
  World world(Job("OnFailure"));
  world.RunsReady().ChangePod(Role::kWorker, 1, [](Pod& pod) {
    pod.containers[0].last_terminated = Termination{.exit_code = 1, .message = "long ago", .finished_at = kStart};
    pod.containers.push_back({.name = "proxy", .restart_count = 2});
    pod.containers[1].last_terminated = Termination{.exit_code = 3, .message = "port in use", .finished_at = kStart + absl::Hours(1)};
  });
  const Plan plan = world.Look();
  ASSERT_THAT(EventReasons(plan), ElementsAre("Restarting"));
  EXPECT_THAT(plan.events[0].note, HasSubstr("container proxy ended with exit code 3; kubectl logs mnist-worker-1 -n default -c proxy"));
  EXPECT_THAT(plan.events[0].note, testing::EndsWith(": port in use"));
}

TEST(RestartPolicy, AnOomKillOfAnotherContainerNamesThatContainersLimit) {
  const auto message = [](const nlohmann::json& init_containers) {
    World world(Job("ExitCode", 0)
                    .Set("/spec/worker/resources", {{"limits", {{"memory", "9Gi"}}}})
                    .Template("worker", {{"spec", {{"containers", {{{"name", "trainer"}}}}, {"initContainers", init_containers}}}}));
    world.RunsReady();
    FetchFails(world, 137, "OOMKilled");
    world.Look();
    return world.status().message;
  };
  const nlohmann::json limits = {{"limits", {{"memory", "64Mi"}}}};
  EXPECT_THAT(
      message({{{"name", "first"}}, {{"name", "fetch"}, {"resources", limits}}}),
      HasSubstr("it needs more memory than spec.worker.template.spec.initContainers[1].resources.limits.memory allows: found 64Mi"));
  EXPECT_THAT(message({{{"name", "fetch"}}}), HasSubstr("set spec.worker.template.spec.initContainers[0].resources.requests.memory"));
  EXPECT_THAT(message(nlohmann::json::array()), HasSubstr("spec.worker.template has no init container of that name"));
}

TEST(RestartPolicy, ALimitOfNAllowsNRestartsAndTheNextFailureFailsTheJob) {
  World world(Job("ExitCode", 2));
  for (int i = 0; i < 2; ++i) {
    world.RunsReady().Exits(Role::kWorker, i, 143).Settle().Passes(absl::Seconds(10));
    EXPECT_FALSE(world.status().Finished());
  }
  EXPECT_EQ(world.status().restarts, 2);
  world.RunsReady().Exits(Role::kWorker, 0, 143);
  const Plan plan = world.Look();
  EXPECT_EQ(world.status().Find(kFailed)->reason, "BackoffLimitExceeded");
  EXPECT_EQ(world.status().restarts, 2);
  EXPECT_THAT(Deleted(plan), ElementsAre("mnist-worker-1")) << "the failed pod stays for its log";
}

TEST(RestartPolicy, RestartsByTheKubeletCountAndSurviveTheirPod) {
  World world(Job("OnFailure"));
  world.RunsReady();
  world.ChangePod(Role::kWorker, 1, [](Pod& pod) {
    pod.containers[0].restart_count = 2;
    pod.containers[0].last_terminated = Termination{.exit_code = 1, .reason = "Error", .message = "termination message"};
  });
  EXPECT_EQ(world.Look().status_timing, StatusTiming::kAtOnce);
  EXPECT_EQ(world.status().restarts, 2);
  EXPECT_EQ(world.status().failure->message, "termination message");
  world.Loses(Role::kWorker, 1).Settle().RunsReady();
  EXPECT_EQ(world.status().restarts, 2);
  EXPECT_EQ(world.status().replica_statuses.at(Role::kWorker).restarts, 2);
  EXPECT_EQ(world.status().disruptions, 1);
  world.ChangePod(Role::kWorker, 1, [](Pod& pod) { pod.containers[0].restart_count = 1; });
  world.Look();
  EXPECT_EQ(world.status().restarts, 3);
}

TEST(RestartPolicy, AContainerThatWaitsForItsNextKubeletRestartFailsAJobWithoutRestartsLeft) {
  World world(Job("OnFailure", 1));
  world.RunsReady().ChangePod(Role::kWorker, 0, [](Pod& pod) {
    pod.ready = false;
    pod.containers[0] = {
        .name = "trainer", .restart_count = 1, .waiting_reason = "CrashLoopBackOff", .last_terminated = Termination{.exit_code = 5}};
  });
  world.Look();
  EXPECT_EQ(world.status().Find(kFailed)->reason, "BackoffLimitExceeded");
  EXPECT_EQ(world.status().restarts, 1);
}

TEST(RestartPolicy, AlwaysSaysOfAContainerThatEndedWithZeroThatItDidNotFail) {
  World world(Job("Always", 1));
  world.RunsReady().ChangePod(Role::kWorker, 0, [](Pod& pod) {
    pod.ready = false;
    pod.containers[0] = {.name = "trainer",
                         .restart_count = 1,
                         .waiting_reason = "CrashLoopBackOff",
                         .last_terminated = Termination{.exit_code = 0, .reason = "Completed"}};
  });
  world.Look();
  EXPECT_THAT(world.status().message, testing::StartsWith("worker-0 ended, and the job has used its 1 restart ("));
  EXPECT_THAT(world.status().message,
              testing::EndsWith("): exit code 0, after which restartPolicy Always starts it again; set spec.worker.restartPolicy to "
                                "OnFailure if it has done its work"));
  EXPECT_EQ(world.status().failure->exit_code, 0);
  EXPECT_EQ(world.status().failure->reason, "Completed");
}

TEST(RestartPolicy, DisruptionsMakeThePodAgainWithoutSpending) {
  const auto disrupt = [](World& world, const std::function<void(Pod&)>& change) { world.ChangePod(Role::kWorker, 1, change); };
  const std::vector<std::pair<const char*, std::function<void(Pod&)>>> cases = {
      {"evicted", [](Pod& pod) { pod = MakePod(Role::kWorker, 1).Evicted().Build(); }},
      {"preempted",
       [](Pod& pod) {
         pod = MakePod(Role::kWorker, 1).Exited(143).Build();
         pod.disruption_target = true;
       }},
      {"deleted from outside", [](Pod& pod) { pod.meta.deletion_time = kStart; }},
      {"killed while it was being deleted", [](Pod& pod) { pod = MakePod(Role::kWorker, 1).Exited(137).Terminating().Build(); }},
  };
  for (const auto& [name, change] : cases) {
    for (const char* policy : {"Always", "OnFailure", "Never", "ExitCode"}) {
      World world(Job(policy, 0));
      world.RunsReady();
      disrupt(world, change);
      const Plan plan = world.Look();
      EXPECT_THAT(EventReasons(plan), ElementsAre("Disrupted")) << name << " " << policy;
      world.Loses(Role::kWorker, 1).Settle().RunsReady();
      EXPECT_EQ(world.status().phase, JobPhase::kRunning) << name << " " << policy;
      EXPECT_EQ(world.status().restarts, 0) << name;
      EXPECT_EQ(world.status().disruptions, 1) << name;
      EXPECT_FALSE(world.status().failure) << name;
    }
  }
}

// Kubernetes' own Job counts such an eviction as a failure, too.
TEST(RestartPolicy, APodThatIsEvictedForItsOwnLimitSpendsARestartAndNamesTheLimit) {
  const char* const words = "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. ";
  World world(Job("ExitCode", 1));
  const auto evict = [&] {
    world.RunsReady().ChangePod(Role::kWorker, 1, [&](Pod& pod) {
      pod = MakePod(Role::kWorker, 1).Uid(pod.meta.uid).Exited(137).Build();
      pod.reason = "Evicted";
      pod.message = words;
    });
    return world.Look();
  };
  const Plan plan = evict();
  ASSERT_THAT(EventReasons(plan), ElementsAre("Restarting"));
  EXPECT_EQ(plan.events[0].note,
            "worker-1 failed and is recreated (restart 1 of 1): Evicted: Pod ephemeral local storage usage exceeds the total limit of "
            "containers 2Mi; raise that limit in spec.worker, or let the replica write less");
  EXPECT_EQ(world.status().failure->reason, "Evicted");
  EXPECT_EQ(world.status().failure->message, words);
  world.Settle().Passes(absl::Seconds(10));
  evict();
  EXPECT_EQ(world.status().Find(kFailed)->reason, "BackoffLimitExceeded");
  EXPECT_THAT(world.status().message, HasSubstr("kubectl describe pod mnist-worker-1"));
  EXPECT_EQ(world.status().disruptions, 0);
}

// As the kubelet rejects pods whose device has vanished, or is no longer where the pod may use it.
TEST(RestartPolicy, APodThatItsKubeletRejectsForADeviceIsMadeAgainWithoutSpending) {
  for (const char* reason : {"UnexpectedAdmissionError", "TopologyAffinityError", "OutOfnvidia.com/gpu"}) {
    for (const char* policy : {"OnFailure", "Never", "ExitCode"}) {
      World world(Job(policy, 0));
      world.RunsReady().ChangePod(Role::kWorker, 1, [&](Pod& pod) {
        pod = MakePod(Role::kWorker, 1).Uid("second").Build();
        pod.phase = PodPhase::kFailed;
        pod.reason = reason;
        pod.message = "Pod was rejected: Allocate failed due to no healthy devices present";
      });
      const Plan plan = world.Look();
      ASSERT_THAT(EventReasons(plan), ElementsAre("Disrupted")) << reason << " " << policy;
      EXPECT_THAT(plan.events[0].note, HasSubstr("no healthy devices present")) << reason;
      world.Settle().RunsReady();
      EXPECT_EQ(world.status().phase, JobPhase::kRunning) << reason << " " << policy;
      EXPECT_EQ(world.status().restarts, 0) << reason;
      EXPECT_EQ(world.status().disruptions, 1) << reason;
    }
  }
}

TEST(RestartPolicy, AFailureOnAnUnhealthyDeviceMakesThePodAgainOnAnotherOneWithoutSpending) {
  for (const char* policy : {"OnFailure", "Never", "ExitCode"}) {
    for (const int code : {1, 137}) {
      World world(Job(policy, 0));
      world.RunsReady().ChangePod(Role::kWorker, 1, [&](Pod& pod) {
        pod = MakePod(Role::kWorker, 1).Uid(pod.meta.uid).Exited(code, "CUDA error: device lost").Build();
        if (std::string(policy) == "OnFailure") pod.phase = PodPhase::kRunning;  // the kubelet is about to restart it
        pod.unhealthy_device = "nvidia.com/gpu GPU-0";
      });
      const Plan plan = world.Look();
      ASSERT_THAT(EventReasons(plan), ElementsAre("Disrupted")) << policy << " " << code;
      EXPECT_THAT(plan.events[0].note, HasSubstr("its nvidia.com/gpu GPU-0 is unhealthy; exit code")) << policy;
      EXPECT_THAT(plan.events[0].note, HasSubstr("CUDA error: device lost"));
      world.Settle().RunsReady();
      EXPECT_EQ(world.status().phase, JobPhase::kRunning) << policy << " " << code;
      EXPECT_EQ(world.status().restarts, 0) << policy;
      EXPECT_EQ(world.status().disruptions, 1) << policy;
    }
  }
  World world(Job("ExitCode", 0));
  world.RunsReady().ChangePod(Role::kWorker, 1, [](Pod& pod) { pod.unhealthy_device = "nvidia.com/gpu GPU-0"; });
  EXPECT_THAT(EventReasons(world.Look()), IsEmpty()) << "it goes on as long as it can";
}

TEST(RestartPolicy, APodThatVanishedUnseenIsMadeAgainAndCounted) {
  World world(Job("OnFailure"));
  world.RunsReady().Loses(Role::kWorker, 1);
  const Plan plan = world.Look();
  EXPECT_THAT(Created(plan), ElementsAre("mnist-worker-1"));
  EXPECT_EQ(world.status().disruptions, 1);
  EXPECT_EQ(world.status().restarts, 0);
}

TEST(RestartPolicy, RecreationsOfOneReplicaWaitLongerEachTimeAndStartOverAfterTenMinutes) {
  World world(Job("ExitCode", 100));
  world.RunsReady();
  std::vector<int64_t> waits;
  for (int i = 0; i < 4; ++i) {
    world.Exits(Role::kWorker, 1, 143);
    const absl::Time failed = world.now();
    world.Look();
    while (!world.pods().contains({Role::kWorker, 1})) {
      const Plan plan = world.Look();
      if (Created(plan).empty()) world.Passes(*plan.requeue_at - world.now());
    }
    waits.push_back(absl::ToInt64Seconds(world.now() - failed));
    world.RunsReady();
  }
  EXPECT_THAT(waits, ElementsAre(0, 1, 2, 4));
  world.Passes(absl::Minutes(10)).Exits(Role::kWorker, 1, 143).Look();
  EXPECT_THAT(Created(world.Look()), ElementsAre("mnist-worker-1")) << "it had run for ten minutes";
}

TEST(RestartPolicy, OtherReplicasDoNotWait) {
  World world(Job("ExitCode", 100));
  world.RunsReady();
  for (int i = 0; i < 3; ++i) world.Exits(Role::kWorker, 1, 143).Settle().Passes(absl::Seconds(10)).RunsReady();
  world.Exits(Role::kWorker, 0, 143).Look();
  EXPECT_THAT(Created(world.Look()), ElementsAre("mnist-worker-0"));
}

TEST(RestartPolicy, TheFirstFailureIsKept) {
  World world(Job("ExitCode"));
  world.RunsReady().Exits(Role::kWorker, 1, 137, "first").Settle().RunsReady();
  world.Exits(Role::kWorker, 0, 1, "second").Look();
  EXPECT_EQ(world.status().failure->message, "first");
  EXPECT_THAT(world.status().Find(kFailed)->message, HasSubstr("exit code 1 (Error): second"));
}

}  // namespace
}  // namespace trainyard::control
