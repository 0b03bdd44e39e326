#include "trainer/launch/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/base/one_stop.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = Action::Kind;

constexpr ExitStatus kOk{};
constexpr ExitStatus kMistake{.code = 1, .signal = 0};
constexpr ExitStatus kPeerAbsent{.code = 200, .signal = 0};
constexpr ExitStatus kKilled{.code = 137, .signal = 9};

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);

// One server (0) and two workers (1 is the chief, 2).
class Job {
 public:
  Job() {
    job.ps.replicas = 1;
    job.worker.replicas = 2;
  }
  Job& Policy(RestartPolicy policy) {
    job.ps.restart_policy = job.worker.restart_policy = policy;
    return *this;
  }
  Supervisor Started() const {
    Supervisor supervisor(job, {{Role::kPs, 0}, {Role::kWorker, 0}, {Role::kWorker, 1}}, {}, kStart);
    EXPECT_THAT(supervisor.Advance(kStart), ElementsAre(Action{Kind::kStart, 0}, Action{Kind::kStart, 1}, Action{Kind::kStart, 2}));
    return supervisor;
  }
  JobConfig job;
};

TEST(Supervisor, SucceedsWhenTheChiefDoesAndThenStopsTheServers) {
  Supervisor supervisor = Job().Started();
  supervisor.Exited(2, kOk, kStart);
  EXPECT_EQ(supervisor.state(), JobState::kRunning);
  supervisor.Exited(1, kOk, kStart);
  EXPECT_EQ(supervisor.state(), JobState::kSucceeded);
  EXPECT_FALSE(supervisor.Done());
  EXPECT_THAT(supervisor.Advance(kStart), ElementsAre(Action{Kind::kTerminate, 0}));
  supervisor.Exited(0, {.code = 143, .signal = 0}, kStart);
  EXPECT_TRUE(supervisor.Done());
  EXPECT_EQ(supervisor.state(), JobState::kSucceeded);
}

TEST(Supervisor, AnEvaluatorIsRestartedAndNeverFailsOrHoldsUpTheJob) {
  Job job;
  job.job.run_policy.backoff_limit = 0;
  for (const RestartPolicy policy : {RestartPolicy::kOnFailure, RestartPolicy::kExitCode, RestartPolicy::kNever}) {
    job.job.evaluator = {.replicas = 1, .restart_policy = policy};
    Supervisor supervisor(job.job, {{Role::kWorker, 0}, {Role::kEvaluator, 0}}, {}, kStart);
    supervisor.Advance(kStart);
    supervisor.Exited(1, kKilled, kStart);
    EXPECT_EQ(supervisor.state(), JobState::kRunning);
    const bool again = policy != RestartPolicy::kNever;
    EXPECT_EQ(supervisor.Advance(kStart), again ? std::vector<Action>({{Kind::kStart, 1}}) : std::vector<Action>());
    EXPECT_EQ(supervisor.restarts(), 0);
    supervisor.Exited(0, kOk, kStart);
    EXPECT_EQ(supervisor.state(), JobState::kSucceeded);
  }
}

TEST(Supervisor, WithAllWorkersTheChiefAloneIsNotEnough) {
  Job job;
  job.job.run_policy.success_policy = RunPolicy::SuccessPolicy::kAllWorkers;
  Supervisor supervisor = job.Started();
  supervisor.Exited(1, kOk, kStart);
  EXPECT_EQ(supervisor.state(), JobState::kRunning);
  supervisor.Exited(2, kOk, kStart);
  EXPECT_EQ(supervisor.state(), JobState::kSucceeded);
}

// The chief's goodbye reached the server, the chief's exit code nobody.
TEST(Supervisor, AChiefThatIsLostAfterItsGoodbyeGetsItsPeersAgain) {
  Supervisor supervisor = Job().Started();
  supervisor.Exited(2, kOk, kStart);
  supervisor.Exited(1, kKilled, kStart);
  EXPECT_THAT(supervisor.Advance(kStart), ElementsAre(Action{Kind::kStart, 1}));
  supervisor.Exited(0, kOk, kStart + absl::Seconds(1));
  EXPECT_EQ(supervisor.NextWake(), kStart + absl::Seconds(11));
  EXPECT_THAT(supervisor.Advance(kStart + absl::Seconds(10)), IsEmpty());
  EXPECT_THAT(supervisor.Advance(kStart + absl::Seconds(11)), ElementsAre(Action{Kind::kStart, 0}, Action{Kind::kStart, 2}));
  ASSERT_EQ(supervisor.second_starts().size(), 1u);
  EXPECT_THAT(supervisor.second_starts()[0].replicas, ElementsAre("ps-0", "worker-1"));
  EXPECT_THAT(supervisor.second_starts()[0].needed_by, ElementsAre("worker-0"));
  EXPECT_EQ(supervisor.restarts(), 1);
  EXPECT_EQ(supervisor.NextWake(), absl::InfiniteFuture());
  supervisor.Exited(1, kOk, kStart + absl::Seconds(12));
  EXPECT_EQ(supervisor.state(), JobState::kSucceeded);
}

TEST(Supervisor, WorkersMayEndLongBeforeOthersWhileTheirServerRuns) {
  Supervisor supervisor = Job().Started();
  supervisor.Exited(2, kOk, kStart);
  EXPECT_EQ(supervisor.NextWake(), absl::InfiniteFuture());
  EXPECT_THAT(supervisor.Advance(kStart + absl::Hours(20)), IsEmpty());
}

TEST(Supervisor, RanksThatEndedStartAgainWithAChiefThatWasLostAfterThem) {
  Job job;
  job.job.ps.replicas = 0;
  job.job.evaluator.replicas = 1;
  Supervisor supervisor(job.job, {{Role::kWorker, 0}, {Role::kWorker, 1}, {Role::kEvaluator, 0}}, {}, kStart);
  supervisor.Advance(kStart);
  supervisor.Exited(2, kOk, kStart);
  EXPECT_EQ(supervisor.NextWake(), absl::InfiniteFuture());  // an evaluator's end tells of no trainer
  supervisor.Exited(1, kOk, kStart);
  supervisor.Exited(0, kKilled, kStart);
  EXPECT_THAT(supervisor.Advance(kStart), ElementsAre(Action{Kind::kStart, 0}));
  EXPECT_THAT(supervisor.Advance(kStart + absl::Seconds(10)), ElementsAre(Action{Kind::kStart, 1}));
}

Job Together() {
  Job job;
  job.job.run_policy.restart_scope = RunPolicy::RestartScope::kJob;
  return job;
}

TEST(Supervisor, WithRestartScopeJobOneFailureEndsAllAndStartsThemWhenTheLastHasEnded) {
  Supervisor supervisor = Together().Started();
  supervisor.Exited(2, kKilled, kStart);
  EXPECT_THAT(supervisor.Advance(kStart), ElementsAre(Action{Kind::kTerminate, 0}, Action{Kind::kTerminate, 1}));
  EXPECT_EQ(supervisor.NextWake(), kStart + absl::Seconds(10)) << "to kill what has not ended";
  supervisor.Exited(1, kOk, kStart);  // it heeded SIGTERM
  EXPECT_THAT(supervisor.Advance(kStart), IsEmpty());
  EXPECT_THAT(supervisor.Advance(kStart + absl::Seconds(10)), ElementsAre(Action{Kind::kKill, 0}));
  supervisor.Exited(0, kKilled, kStart + absl::Seconds(11));
  EXPECT_THAT(supervisor.Advance(kStart + absl::Seconds(11)),
              ElementsAre(Action{Kind::kStart, 0}, Action{Kind::kStart, 1}, Action{Kind::kStart, 2}));
  EXPECT_EQ(supervisor.restarts(), 1);
  EXPECT_EQ(supervisor.failures().size(), 1U);
  EXPECT_EQ(supervisor.state(), JobState::kRunning);
}

TEST(Supervisor, ReplicasThatFailBecauseOfTheFirstOrHadEndedStartAgainWithAllAndSpendNothing) {
  Job job = Together();
  job.job.run_policy.backoff_limit = 1;
  job.job.run_policy.success_policy = RunPolicy::SuccessPolicy::kAllWorkers;
  Supervisor supervisor = job.Started();
  supervisor.Exited(1, kOk, kStart);
  supervisor.Exited(2, kKilled, kStart);
  supervisor.Exited(0, kKilled, kStart);  // before it was told to
  EXPECT_THAT(supervisor.Advance(kStart), ElementsAre(Action{Kind::kStart, 0}, Action{Kind::kStart, 1}, Action{Kind::kStart, 2}));
  EXPECT_EQ(supervisor.restarts(), 1);
  supervisor.Exited(0, kKilled, kStart);
  EXPECT_EQ(supervisor.state(), JobState::kFailed);
  EXPECT_THAT(supervisor.Advance(kStart), ElementsAre(Action{Kind::kTerminate, 1}, Action{Kind::kTerminate, 2}));
}

TEST(Supervisor, AStopWhileAllEndToStartAgainStartsNone) {
  Supervisor supervisor = Together().Started();
  supervisor.Exited(2, kKilled, kStart);
  supervisor.Advance(kStart);
  supervisor.StopRequested(kStart);
  supervisor.Exited(0, kKilled, kStart);
  supervisor.Exited(1, kKilled, kStart);
  EXPECT_THAT(supervisor.Advance(kStart + absl::Minutes(1)), IsEmpty());
  EXPECT_TRUE(supervisor.Done());
}

TEST(Supervisor, RestartsAtOnceThenAfterOneTwoFourSeconds) {
  Supervisor supervisor = Job().Started();
  absl::Time now = kStart;
  for (const int delay : {0, 1, 2, 4}) {
    supervisor.Exited(2, kKilled, now);
    EXPECT_EQ(supervisor.NextWake(), now + absl::Seconds(delay));
    if (delay > 0) {
      EXPECT_THAT(supervisor.Advance(now), IsEmpty());
    }
    now += absl::Seconds(delay);
    EXPECT_THAT(supervisor.Advance(now), ElementsAre(Action{Kind::kStart, 2}));
  }
  EXPECT_EQ(supervisor.restarts(), 4);
  EXPECT_EQ(supervisor.failures().size(), 4u);
  EXPECT_TRUE(supervisor.failures()[0].restarted);
}

TEST(Supervisor, TheDelaysStartOverAfterTenMinutesOfRunning) {
  Supervisor supervisor = Job().Started();
  supervisor.Exited(2, kKilled, kStart);
  supervisor.Advance(kStart);
  const absl::Time later = kStart + absl::Minutes(10);
  supervisor.Exited(2, kKilled, later);
  EXPECT_EQ(supervisor.NextWake(), later);
}

TEST(Supervisor, BackoffLimitAllowsNRestartsAndFailsAtTheNext) {
  Job job;
  job.job.run_policy.backoff_limit = 1;
  Supervisor supervisor = job.Started();
  supervisor.Exited(2, kKilled, kStart);
  supervisor.Advance(kStart);
  EXPECT_EQ(supervisor.failures()[0].restart, 1);
  supervisor.Exited(0, kKilled, kStart);
  EXPECT_EQ(supervisor.state(), JobState::kFailed);
  EXPECT_EQ(supervisor.exit_code(), 137);
  EXPECT_THAT(
      supervisor.message(),
      HasSubstr("BackoffLimitExceeded: ps-0 failed with signal 9 (Killed); the job has no restarts left (runPolicy.backoffLimit 1)"));
  EXPECT_THAT(supervisor.Advance(kStart), ElementsAre(Action{Kind::kTerminate, 1}, Action{Kind::kTerminate, 2}));
}

TEST(Supervisor, AnAbsentPeerSpendsNoRestartHoweverOften) {
  Job job;
  job.job.run_policy.backoff_limit = 0;
  Supervisor supervisor = job.Started();
  absl::Time now = kStart;
  for (int i = 0; i < 5; ++i) {
    supervisor.Exited(2, kPeerAbsent, now, "ps-0 was absent for 1800 s");
    EXPECT_EQ(supervisor.state(), JobState::kRunning);
    now = supervisor.NextWake();
    EXPECT_THAT(supervisor.Advance(now), ElementsAre(Action{Kind::kStart, 2}));
  }
  EXPECT_EQ(supervisor.restarts(), 0);
  EXPECT_EQ(now, kStart + absl::Seconds(0 + 1 + 2 + 4 + 8));
}

TEST(Supervisor, AJobsOwnMistakeEndsItAtOnceWithTheReasonAndTheReplicasCode) {
  Supervisor supervisor = Job().Started();
  supervisor.Exited(2, {.code = 3, .signal = 0}, kStart, "cannot open x: No such file or directory");
  EXPECT_EQ(supervisor.state(), JobState::kFailed);
  EXPECT_EQ(supervisor.exit_code(), 3);
  EXPECT_EQ(supervisor.message(), "worker-1: cannot open x: No such file or directory");
  EXPECT_FALSE(supervisor.failures()[0].restarted);
  EXPECT_EQ(supervisor.restarts(), 0);
}

TEST(Supervisor, TheServersOfAFailedJobAreKilledWhenNoTrainerIsLeft) {
  Supervisor supervisor = Job().Started();
  supervisor.Exited(2, kMistake, kStart);
  EXPECT_THAT(supervisor.Advance(kStart), ElementsAre(Action{Kind::kTerminate, 0}, Action{Kind::kTerminate, 1}));
  EXPECT_THAT(supervisor.Advance(kStart), IsEmpty());
  supervisor.Exited(1, {.code = 143, .signal = 0}, kStart);
  EXPECT_THAT(supervisor.Advance(kStart), ElementsAre(Action{Kind::kKill, 0}));
  supervisor.Exited(0, kKilled, kStart);
  EXPECT_TRUE(supervisor.Done());
}

TEST(Supervisor, ReplicasWithoutAnythingToSaveAreKilledAtOnce) {
  Supervisor supervisor = Job().Started();
  supervisor.Exited(2, kMistake, kStart);
  supervisor.KillAll();
  EXPECT_THAT(supervisor.Advance(kStart),
              ElementsAre(Action{Kind::kTerminate, 0}, Action{Kind::kKill, 0}, Action{Kind::kTerminate, 1}, Action{Kind::kKill, 1}));
}

TEST(Supervisor, AStopTerminatesAllAndKillsAfterTheGrace) {
  Supervisor supervisor = Job().Started();
  supervisor.StopRequested(kStart);
  EXPECT_THAT(supervisor.Advance(kStart),
              ElementsAre(Action{Kind::kTerminate, 0}, Action{Kind::kTerminate, 1}, Action{Kind::kTerminate, 2}));
  supervisor.Exited(1, {.code = 143, .signal = 0}, kStart);
  supervisor.Exited(2, {.code = 143, .signal = 0}, kStart);
  EXPECT_EQ(supervisor.NextWake(), kStart + absl::Seconds(10));
  EXPECT_THAT(supervisor.Advance(kStart + absl::Seconds(10)), ElementsAre(Action{Kind::kKill, 0}));
  supervisor.Exited(0, kKilled, kStart);
  EXPECT_TRUE(supervisor.Done());
  EXPECT_EQ(supervisor.state(), JobState::kStopped);
  EXPECT_THAT(supervisor.failures(), IsEmpty());
}

TEST(Supervisor, ASecondStopKillsAtOnce) {
  Supervisor supervisor = Job().Started();
  EXPECT_EQ(supervisor.StopRequested(kStart), StopAnswer::kStops);
  supervisor.Advance(kStart);
  EXPECT_EQ(supervisor.StopRequested(kStart + kOneStop), StopAnswer::kKills);
  EXPECT_THAT(supervisor.Advance(kStart + kOneStop), ElementsAre(Action{Kind::kKill, 0}, Action{Kind::kKill, 1}, Action{Kind::kKill, 2}));
}

TEST(Supervisor, ASignalThatComesTwiceIsOneStop) {
  Supervisor supervisor = Job().Started();
  supervisor.StopRequested(kStart);
  EXPECT_EQ(supervisor.StopRequested(kStart), StopAnswer::kNothing);
  EXPECT_THAT(supervisor.Advance(kStart),
              ElementsAre(Action{Kind::kTerminate, 0}, Action{Kind::kTerminate, 1}, Action{Kind::kTerminate, 2}));
  EXPECT_EQ(supervisor.StopRequested(kStart + kOneStop - absl::Milliseconds(1)), StopAnswer::kNothing);
  EXPECT_THAT(supervisor.Advance(kStart + kOneStop), IsEmpty());
}

TEST(Supervisor, AStopOfAJobThatFailsLeavesItsReplicasTheirGraceAndASecondOneKills) {
  Supervisor supervisor = Job().Started();
  supervisor.Exited(2, {.code = 1, .signal = 0}, kStart);
  supervisor.Advance(kStart);
  EXPECT_EQ(supervisor.StopRequested(kStart), StopAnswer::kWaits);
  EXPECT_THAT(supervisor.Advance(kStart), IsEmpty());
  EXPECT_EQ(supervisor.StopRequested(kStart), StopAnswer::kNothing);
  EXPECT_EQ(supervisor.StopRequested(kStart + kOneStop), StopAnswer::kKills);
  EXPECT_THAT(supervisor.Advance(kStart + kOneStop), ElementsAre(Action{Kind::kKill, 0}, Action{Kind::kKill, 1}));
  EXPECT_EQ(supervisor.state(), JobState::kFailed);
}

TEST(Supervisor, AStopOfAJobThatHasSucceededKillsAtOnce) {
  Supervisor supervisor = Job().Started();
  supervisor.Exited(1, kOk, kStart);
  supervisor.Advance(kStart);
  EXPECT_EQ(supervisor.StopRequested(kStart), StopAnswer::kKills);
  EXPECT_THAT(supervisor.Advance(kStart), ElementsAre(Action{Kind::kKill, 0}, Action{Kind::kKill, 2}));
}

TEST(Supervisor, TheDeadlineFailsTheJobWithoutAnyEvent) {
  Job job;
  job.job.run_policy.active_deadline_seconds = 30;
  Supervisor supervisor = job.Started();
  EXPECT_EQ(supervisor.NextWake(), kStart + absl::Seconds(30));
  supervisor.Advance(kStart + absl::Seconds(30));
  EXPECT_EQ(supervisor.state(), JobState::kFailed);
  EXPECT_THAT(supervisor.message(), HasSubstr("DeadlineExceeded"));
}

}  // namespace
}  // namespace trainyard::engine
