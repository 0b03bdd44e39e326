#include "operator/plan/failure_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/plan/conditions.h"
#include "operator/plan/test_world.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

json OnCodes(const char* action, const char* in, std::vector<int> values, const char* container = "") {
  json codes = {{"operator", in}, {"values", values}};
  if (*container != '\0') codes["containerName"] = container;
  return {{"action", action}, {"onExitCodes", codes}};
}

json OnCondition(const char* action, const char* type) {
  return {{"action", action}, {"onPodConditions", json::array({{{"type", type}}})}};
}

MakeJob Ruled(const std::vector<json>& rules, const char* policy = "OnFailure", int backoff_limit = 6) {
  return MakeJob()
      .Replicas("worker", 2)
      .Claim("data")
      .Restart("worker", policy)
      .Policy("backoffLimit", backoff_limit)
      .Policy("podFailurePolicy", {{"rules", json(rules)}});
}

ContainerStatus Ended(const char* name, int code) {
  return {.name = name, .terminated = Termination{.exit_code = code, .reason = "Error"}};
}

RunPolicy PolicyOf(const std::vector<json>& rules) { return Ruled(rules).Build().spec.run_policy; }

std::string WhyOf(const RunPolicy& policy, const Pod& pod, PodState state = PodState::kFailed) {
  const std::optional<RuleMatch> match = MatchFailureRules(policy, pod, state);
  return match ? match->why : "";
}

TEST(FailureRules, TheFirstRuleThatMatchesWins) {
  const RunPolicy policy = PolicyOf({OnCodes("Ignore", "In", {3, 4}), OnCodes("FailJob", "NotIn", {137}), OnCodes("Count", "In", {137})});
  const auto action = [&](int code) {
    return MatchFailureRules(policy, MakePod(Role::kWorker, 0).Exited(code).Build(), PodState::kFailed)->action;
  };
  EXPECT_EQ(action(4), FailureAction::kIgnore);
  EXPECT_EQ(action(5), FailureAction::kFailJob);
  EXPECT_EQ(action(137), FailureAction::kCount);
  EXPECT_EQ(WhyOf(policy, MakePod(Role::kWorker, 0).Exited(137).Build()),
            "runPolicy.podFailurePolicy.rules[2] says Count: container trainer ended with exit code 137");
}

TEST(FailureRules, InitContainersAndSidecarsAreSeenAndThoseThatEndedWellAreNot) {
  Pod pod = MakePod(Role::kWorker, 0).Exited(1).Build();
  pod.containers[0].terminated = Termination{.exit_code = 0};
  pod.containers.push_back(Ended("proxy", 7));
  pod.init_containers = {Ended("fetch", 9)};
  EXPECT_EQ(WhyOf(PolicyOf({OnCodes("Count", "In", {7})}), pod),
            "runPolicy.podFailurePolicy.rules[0] says Count: container proxy ended with exit code 7");
  EXPECT_EQ(WhyOf(PolicyOf({OnCodes("Count", "In", {9})}), pod),
            "runPolicy.podFailurePolicy.rules[0] says Count: init container fetch ended with exit code 9");
  EXPECT_EQ(WhyOf(PolicyOf({OnCodes("Count", "NotIn", {7, 9})}), pod), "") << "trainer ended with 0";
  EXPECT_EQ(WhyOf(PolicyOf({OnCodes("Count", "In", {7}, "fetch")}), pod), "");
  EXPECT_THAT(WhyOf(PolicyOf({OnCodes("Count", "NotIn", {7}, "fetch")}), pod), HasSubstr("init container fetch"));
}

TEST(FailureRules, OfAPodThatRunsOnlyANamedContainerCounts) {
  Pod pod = MakePod(Role::kWorker, 0).Ready().Build();
  pod.containers.push_back(Ended("proxy", 7));
  EXPECT_EQ(WhyOf(PolicyOf({OnCodes("Count", "In", {7})}), pod, PodState::kWaiting), "");
  EXPECT_THAT(WhyOf(PolicyOf({OnCodes("Count", "In", {7}), OnCodes("Count", "In", {7}, "proxy")}), pod, PodState::kWaiting),
              HasSubstr("rules[1]"));
  pod.init_containers = {Ended("fetch", 9)};
  EXPECT_EQ(WhyOf(PolicyOf({OnCodes("Count", "In", {9}, "fetch")}), pod, PodState::kWaiting), "") << "the kubelet restarts it";
  EXPECT_EQ(WhyOf(PolicyOf({OnCodes("Count", "In", {7}, "proxy")}), pod, PodState::kCompleted), "");
}

TEST(FailureRules, ADisruptedPodIsMatchedByItsConditionsAlone) {
  Pod pod = MakePod(Role::kWorker, 0).Exited(137).Build();
  pod.conditions = {{"DisruptionTarget", "True"}, {"Broken", "False"}};
  EXPECT_EQ(WhyOf(PolicyOf({OnCodes("FailJob", "In", {137})}), pod, PodState::kDisrupted), "");
  EXPECT_EQ(WhyOf(PolicyOf({OnCondition("Count", "DisruptionTarget")}), pod, PodState::kDisrupted),
            "runPolicy.podFailurePolicy.rules[0] says Count: its condition DisruptionTarget is True");
  EXPECT_EQ(WhyOf(PolicyOf({OnCondition("Count", "Broken")}), pod, PodState::kFailed), "") << "status is True where a rule names none";
  EXPECT_EQ(WhyOf(PolicyOf({OnCondition("Count", "DisruptionTarget")}), pod, PodState::kReady), "") << "it has not ended";
}

TEST(FailureRules, ConditionsOfAPodAreReadButTheUsualOnes) {
  const Pod pod = *Pod::FromJson(json::parse(R"({"metadata": {"name": "p"}, "status": {"conditions": [
      {"type": "Ready", "status": "False"}, {"type": "PodScheduled", "status": "True"}, {"type": "ConfigIssue", "status": "True"}, 7]}})"));
  ASSERT_THAT(pod.conditions, testing::Contains(PodCondition{"ConfigIssue", "True"}));
  EXPECT_THAT(pod.conditions, testing::Not(testing::Contains(PodCondition{"Ready", "False"})));
  Pod other = pod;
  other.conditions.clear();
  EXPECT_FALSE(SameForPlan(pod, other));
}

TEST(FailureRules, FailJobFailsTheJobAndSaysByWhichRule) {
  World world(Ruled({OnCodes("FailJob", "In", {42})}));
  world.RunsReady().Exits(Role::kWorker, 1, 42, "bad data").Look();
  EXPECT_EQ(ReasonOf(world, kFailed), "PodFailurePolicy");
  EXPECT_THAT(world.status().message,
              HasSubstr("worker-1 failed, and runPolicy.podFailurePolicy.rules[0] says FailJob: container trainer ended"));
  EXPECT_THAT(world.status().message, HasSubstr("bad data"));
  EXPECT_EQ(world.status().failure->replica, "worker-1");
}

TEST(FailureRules, IgnoreSpendsNothingAndSaysSo) {
  World world(Ruled({OnCodes("Ignore", "In", {42})}, "Never", 0));
  world.RunsReady();
  const Plan plan = world.Exits(Role::kWorker, 1, 42).Look();
  ASSERT_THAT(EventReasons(plan), ElementsAre("Disrupted"));
  EXPECT_THAT(plan.events[0].note, HasSubstr("does not count against backoffLimit; runPolicy.podFailurePolicy.rules[0] says Ignore"));
  world.RunsReady();
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
  EXPECT_EQ(world.status().restarts, 0);
  EXPECT_EQ(world.status().disruptions, 1);
}

TEST(FailureRules, CountSpendsOneWhateverTheRestartPolicySays) {
  World never(Ruled({OnCodes("Count", "In", {42})}, "Never", 1));
  never.RunsReady();
  const Plan plan = never.Exits(Role::kWorker, 1, 42).Look();
  ASSERT_THAT(EventReasons(plan), ElementsAre("Restarting"));
  EXPECT_THAT(plan.events[0].note, HasSubstr("(restart 1 of 1; runPolicy.podFailurePolicy.rules[0] says Count"));
  never.RunsReady();
  EXPECT_EQ(never.status().restarts, 1);
  never.Exits(Role::kWorker, 1, 42).Look();
  EXPECT_EQ(ReasonOf(never, kFailed), "BackoffLimitExceeded");

  World evicted(Ruled({OnCondition("Count", "DisruptionTarget")}));
  evicted.RunsReady().ChangePod(Role::kWorker, 1, [](Pod& pod) {
    pod.phase = PodPhase::kFailed;
    pod.disruption_target = true;
    pod.conditions = {{"DisruptionTarget", "True"}};
  });
  evicted.Settle();
  EXPECT_EQ(evicted.status().restarts, 1);
  EXPECT_EQ(evicted.status().disruptions, 0);
}

TEST(FailureRules, WithoutAMatchTheRestartPolicyDecides) {
  World world(Ruled({OnCodes("Ignore", "In", {42})}, "ExitCode"));
  world.RunsReady().Exits(Role::kWorker, 1, 3).Look();
  EXPECT_EQ(ReasonOf(world, kFailed), "ExitCode");

  World evicted(Ruled({OnCodes("FailJob", "NotIn", {1})}));
  evicted.RunsReady().Has(MakePod(Role::kWorker, 1).Evicted()).Settle();
  EXPECT_EQ(evicted.status().disruptions, 1);
}

TEST(FailureRules, ASidecarThatARuleNamesRestartsItsReplicaWhileTheTrainerRuns) {
  World world(Ruled({OnCodes("Count", "NotIn", {1}, "proxy")}));
  EXPECT_EQ(world.job().spec.Find(Role::kWorker)->restart_policy, RestartPolicy::kRecreate) << "the kubelet would restart the proxy alone";
  world.RunsReady().ChangePod(Role::kWorker, 1, [](Pod& pod) {
    pod.ready = false;
    pod.containers.push_back(Ended("proxy", 7));
  });
  const Plan plan = world.Look();
  EXPECT_THAT(Deleted(plan), ElementsAre("mnist-worker-1"));
  EXPECT_THAT(plan.events[0].note, HasSubstr("container proxy ended with exit code 7"));
  EXPECT_EQ(world.status().restarts, 1);
  world.RunsReady();
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
}

TEST(FailureRules, AnEvaluatorFailsNoJob) {
  World world(Ruled({OnCodes("FailJob", "In", {42})}).Replicas("evaluator", 1));
  world.RunsReady().Exits(Role::kEvaluator, 0, 42).Settle();
  EXPECT_EQ(world.status().phase, JobPhase::kRunning);
  EXPECT_FALSE(world.status().failure);
}

TEST(FailureRules, ARuleThatMakesNoSenseIsNamed) {
  const auto problem = [](const json& rule, const char* policy = "OnFailure") {
    const TrainingJob job = Ruled({rule}, policy).Build();
    return job.problems.empty() ? "" : job.problems[0].path + ": " + job.problems[0].message;
  };
  EXPECT_EQ(problem(OnCodes("Count", "In", {1})), "");
  EXPECT_THAT(problem({{"action", "Count"}}), HasSubstr("rules[0]: found neither onExitCodes and onPodConditions"));
  json both = OnCodes("Count", "In", {1});
  both["onPodConditions"] = json::array({{{"type", "X"}}});
  EXPECT_THAT(problem(both), HasSubstr("rules[0]: found both"));
  EXPECT_THAT(problem(OnCondition("Count", "Ready")), HasSubstr("onPodConditions[0].type: found Ready, which every pod has"));
  EXPECT_THAT(problem(OnCodes("Count", "In", {1}), "Always"), HasSubstr("spec.worker.restartPolicy: found Always"));
  EXPECT_THAT(problem(OnCodes("Restart", "In", {1})), HasSubstr("rules[0].action"));
  EXPECT_THAT(problem(OnCodes("Count", "Between", {1})), HasSubstr("rules[0].onExitCodes.operator"));
  EXPECT_THAT(problem(OnCodes("Count", "In", {})), HasSubstr("values"));
}

}  // namespace
}  // namespace trainyard::control
