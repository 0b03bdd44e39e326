#include "tests/process_ends.h"

#include <gtest/gtest.h>

#include <string>

#include "operator/plan/conditions.h"
#include "operator/plan/test_world.h"
#include "trainer/launch/supervisor.h"

namespace trainyard {
namespace {

constexpr int kWorker = 1;  // not the chief

std::string TextOf(const ProcessEnd& end) {
  return "policy '" + std::string(end.policy) + "', rule '" + std::string(end.rule) + "', exit code " + std::to_string(end.code);
}

std::string JobText(const ProcessEnd& end) {
  std::string text = R"(apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: test}
spec:
  ps: {replicas: 1}
  training:
    model: {preset: linear}
    data: {format: synthetic, train: {examples: 8}}
    steps: 1
    strategy: {parameterServer: {mode: sync}}
)";
  const std::string policy = end.policy.empty() ? "" : ", restartPolicy: " + std::string(end.policy);
  text += "  worker: {replicas: 2" + policy + "}\n";
  if (!end.rule.empty()) {
    const std::string code = std::to_string(end.code);
    text += "  runPolicy: {exitCodes: [{from: " + code + ", to: " + code + ", action: " + std::string(end.rule) + "}]}\n";
  }
  return text;
}

Outcome InTheLauncher(const ProcessEnd& end) {
  const auto job = engine::ParseJob(JobText(end), "job.yaml");
  EXPECT_TRUE(job.ok()) << job.status();
  const absl::Time now = absl::UnixEpoch();
  constexpr int kReplica = 2;  // of the list
  engine::Supervisor supervisor(*job, {{engine::Role::kPs, 0}, {engine::Role::kWorker, 0}, {engine::Role::kWorker, kWorker}}, {}, now);
  supervisor.Advance(now);
  const int signal = end.code > 128 && end.code < 160 ? end.code - 128 : 0;
  supervisor.Exited(kReplica, {.code = end.code, .signal = signal}, now);
  if (supervisor.state() == engine::JobState::kFailed) {
    EXPECT_EQ(supervisor.exit_code(), end.code);
    return Outcome::kFails;
  }
  if (supervisor.failures().empty()) {
    EXPECT_TRUE(supervisor.Advance(now + absl::Hours(1)).empty()) << "nothing starts again";
    return Outcome::kDone;
  }
  EXPECT_TRUE(supervisor.failures().at(0).restarted);
  return supervisor.restarts() > 0 ? Outcome::kRestarts : Outcome::kRestartsFree;
}

Outcome InTheOperator(const ProcessEnd& end) {
  control::MakeJob job;
  job.Replicas("ps", 1).Replicas("worker", 2).Claim("data");
  if (!end.policy.empty()) job.Restart("worker", std::string(end.policy));
  if (!end.rule.empty()) job.Policy("exitCodes", {{{"from", end.code}, {"to", end.code}, {"action", std::string(end.rule)}}});
  control::World world(job);
  world.RunsReady();
  const bool by_kubelet = (end.policy == "OnFailure" && end.code != 0) || end.policy == "Always";
  if (by_kubelet) {  // the kubelet restarts the container in its pod
    world.ChangePod(control::Role::kWorker, kWorker, [&](control::Pod& pod) {
      pod.containers[0].restart_count = 1;
      pod.containers[0].last_terminated = control::Termination{.exit_code = end.code, .reason = "Error"};
    });
    world.Look();
  } else {
    world.Exits(control::Role::kWorker, kWorker, end.code).Settle();
  }
  const control::TrainingJobStatus& status = world.status();
  if (status.IsTrue(control::kFailed)) return Outcome::kFails;
  if (status.replica_statuses.at(control::Role::kWorker).completed == std::to_string(kWorker)) return Outcome::kDone;
  EXPECT_EQ(status.restarts + status.disruptions, 1);
  return status.restarts > 0 ? Outcome::kRestarts : Outcome::kRestartsFree;
}

TEST(ProcessEnds, TheLauncherFollowsTheTable) {
  for (const ProcessEnd& end : kProcessEnds) EXPECT_EQ(InTheLauncher(end), end.outcome) << TextOf(end);
}

TEST(ProcessEnds, TheOperatorFollowsTheTable) {
  for (const ProcessEnd& end : kProcessEnds) EXPECT_EQ(InTheOperator(end), end.outcome) << TextOf(end);
}

}  // namespace
}  // namespace trainyard
