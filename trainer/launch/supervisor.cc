#include "trainer/launch/supervisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/base/one_stop.h"
#include "trainer/launch/restart_decision.h"

namespace trainyard::engine {
namespace {

constexpr int kStoppedByUser = 130;  // as a shell says it: 128 + SIGINT

RestartPolicy PolicyOf(const JobConfig& job, Role role) {
  switch (role) {
    case Role::kChief:
      return job.chief.restart_policy;
    case Role::kWorker:
      return job.worker.restart_policy;
    case Role::kPs:
      return job.ps.restart_policy;
    case Role::kEvaluator:
      return job.evaluator.restart_policy;
  }
  return RestartPolicy::kNever;
}

// 0, then 1, 2, 4 … s, for the first, second … restart in a row.
absl::Duration Backoff(int consecutive_failures, absl::Duration max) {
  if (consecutive_failures <= 1) return absl::ZeroDuration();
  return std::min(max, absl::Seconds(1) * (int64_t{1} << std::min(consecutive_failures - 2, 30)));
}

}  // namespace

std::string_view JobStateName(JobState state) {
  switch (state) {
    case JobState::kRunning:
      return "Running";
    case JobState::kSucceeded:
      return "Succeeded";
    case JobState::kFailed:
      return "Failed";
    case JobState::kStopped:
      return "Stopped";
  }
  return "?";
}

std::string Describe(const ReplicaFailure& failure) {
  if (failure.error.empty()) return fmt::format("{} failed with {}", failure.replica, Describe(failure.exit));
  return fmt::format("{}: {}", failure.replica, failure.error);
}

std::string Name(const ReplicaId& id) { return fmt::format("{}-{}", RoleName(id.role), id.index); }

Supervisor::Supervisor(const JobConfig& job, std::vector<ReplicaId> replicas, Options options, absl::Time now)
    : options_(options), run_policy_(job.run_policy), job_start_(now), has_chief_(job.chief.replicas > 0) {
  for (const ReplicaId& id : replicas)
    replicas_.push_back({.id = id, .policy = PolicyOf(job, id.role), .start_at = now, .started_at = now});
}

bool Supervisor::IsChief(const Replica& replica) const {
  if (has_chief_) return replica.id.role == Role::kChief;
  return replica.id.role == Role::kWorker && replica.id.index == 0;
}

void Supervisor::Failed(Replica& replica, const ExitStatus& exit, absl::Time now, std::string error) {
  ReplicaFailure& record = failures_.emplace_back(ReplicaFailure{
      .replica = Name(replica.id), .exit = exit, .error = std::move(error), .seconds = absl::ToDoubleSeconds(now - job_start_)});
  // The training goes on without its evaluator: its failures spend no restart and fail no job.
  const bool counts = replica.id.role != Role::kEvaluator;
  const RestartDecision decision = DecideRestart(replica.policy, run_policy_.exit_codes, exit.code);
  if (decision == RestartDecision::kFail) {
    replica.phase = Phase::kEnded;
    if (!counts) return;
    return End(JobState::kFailed, exit.code, Describe(record));
  }
  const bool spends = counts && decision == RestartDecision::kRestart;
  if (spends && restarts_ >= run_policy_.backoff_limit) {
    replica.phase = Phase::kEnded;
    return End(JobState::kFailed, exit.code,
               fmt::format("BackoffLimitExceeded: {}; the job has no restarts left (runPolicy.backoffLimit {})", Describe(record),
                           run_policy_.backoff_limit));
  }
  if (now - replica.started_at >= options_.backoff_reset) replica.consecutive_failures = 0;
  ++replica.consecutive_failures;
  if (spends) record.restart = ++restarts_;
  record.restarted = true;
  replica.phase = Phase::kWaiting;
  replica.start_at = now + Backoff(replica.consecutive_failures, options_.max_backoff);
  EndAllWith(replica);
}

void Supervisor::EndAllWith(const Replica& replica) {
  if (run_policy_.restart_scope != RunPolicy::RestartScope::kJob || replica.id.role == Role::kEvaluator) return;
  for (Replica& other : replicas_) {
    if (&other == &replica || other.id.role == Role::kEvaluator) continue;
    other.start_at = replica.start_at;
    other.ends_with_all = other.phase == Phase::kRunning;
    if (!other.ends_with_all) other.phase = Phase::kWaiting;
  }
}

bool Supervisor::IsHeld(const Replica& replica) const {
  return replica.id.role != Role::kEvaluator && std::ranges::any_of(replicas_, &Replica::ends_with_all);
}

void Supervisor::Exited(int index, const ExitStatus& exit, absl::Time now, std::string error) {
  Replica& replica = replicas_[index];
  const bool was_stopped = replica.phase == Phase::kTerminating || replica.phase == Phase::kKilled;
  replica.kill_at = absl::InfiniteFuture();
  if (std::exchange(replica.ends_with_all, false) && state_ == JobState::kRunning) {
    replica.phase = Phase::kWaiting;
  } else if (exit.code == 0) {
    replica.phase = Phase::kSucceeded;
    replica.ended_at = now;
  } else if (was_stopped || state_ != JobState::kRunning) {
    replica.phase = Phase::kEnded;
  } else {
    Failed(replica, exit, now, std::move(error));
  }
  if (state_ != JobState::kRunning || replica.phase != Phase::kSucceeded) return;
  const bool chief_is_enough = run_policy_.success_policy == RunPolicy::SuccessPolicy::kChief && IsChief(replica);
  if (AllSucceeded() || chief_is_enough) End(JobState::kSucceeded, 0, "");
}

bool Supervisor::AllSucceeded() const {
  return std::ranges::all_of(replicas_, [](const Replica& replica) {
    return IsServer(replica) || replica.id.role == Role::kEvaluator || replica.phase == Phase::kSucceeded;
  });
}

absl::Time Supervisor::TrainersEndBy() const {
  const bool has_servers = std::ranges::any_of(replicas_, IsServer);
  absl::Time end = absl::InfiniteFuture();
  for (const Replica& replica : replicas_) {
    const bool tells = has_servers ? IsServer(replica) : replica.id.role != Role::kEvaluator;
    if (tells && replica.phase == Phase::kSucceeded) end = std::min(end, replica.ended_at + options_.ending);
  }
  return end;
}

void Supervisor::StartPeersAgain(absl::Time now) {
  if (state_ != JobState::kRunning || now < TrainersEndBy()) return;
  SecondStart& again = second_starts_.emplace_back();
  for (Replica& replica : replicas_) {
    if (replica.id.role == Role::kEvaluator) continue;
    if (replica.phase == Phase::kSucceeded) {
      replica.phase = Phase::kWaiting;
      replica.start_at = now;
      again.replicas.push_back(Name(replica.id));
    } else if (!IsServer(replica)) {
      again.needed_by.push_back(Name(replica.id));
    }
  }
}

bool Supervisor::ServersAreNeedless() const {
  return state_ == JobState::kFailed &&
         std::ranges::all_of(replicas_, [](const Replica& replica) { return IsServer(replica) || HasEnded(replica); });
}

void Supervisor::End(JobState state, int exit_code, std::string message) {
  state_ = state;
  exit_code_ = exit_code;
  message_ = std::move(message);
  for (Replica& replica : replicas_) {
    if (replica.phase == Phase::kWaiting) replica.phase = Phase::kEnded;
  }
}

StopAnswer Supervisor::StopRequested(absl::Time now) {
  if (!stop_asked_at_ && (state_ == JobState::kRunning || state_ == JobState::kFailed)) {
    stop_asked_at_ = now;
    if (state_ == JobState::kFailed) return StopAnswer::kWaits;
    End(JobState::kStopped, kStoppedByUser, "stopped by the user");
    return StopAnswer::kStops;
  }
  if (stop_asked_at_ && now < *stop_asked_at_ + kOneStop) return StopAnswer::kNothing;
  kill_all_ = true;
  return StopAnswer::kKills;
}

std::vector<Action> Supervisor::Advance(absl::Time now) {
  if (state_ == JobState::kRunning && run_policy_.active_deadline_seconds > 0 &&
      now - job_start_ >= absl::Seconds(run_policy_.active_deadline_seconds)) {
    End(JobState::kFailed, 1,
        fmt::format("DeadlineExceeded: the job ran for {} s (runPolicy.activeDeadlineSeconds)", run_policy_.active_deadline_seconds));
  }
  StartPeersAgain(now);
  std::vector<Action> actions;
  const bool kill_all = kill_all_ || ServersAreNeedless();
  for (int i = 0; i < static_cast<int>(replicas_.size()); ++i) {
    Replica& replica = replicas_[i];
    if (replica.phase == Phase::kWaiting && replica.start_at <= now && !IsHeld(replica)) {
      replica.phase = Phase::kRunning;
      replica.started_at = now;
      actions.push_back({Action::Kind::kStart, i});
    } else if (replica.phase == Phase::kRunning && (state_ != JobState::kRunning || replica.ends_with_all)) {
      replica.phase = Phase::kTerminating;
      replica.kill_at = now + options_.stop_grace;
      actions.push_back({Action::Kind::kTerminate, i});
    }
    if (replica.phase == Phase::kTerminating && (kill_all || replica.kill_at <= now)) {
      replica.phase = Phase::kKilled;
      replica.kill_at = absl::InfiniteFuture();
      actions.push_back({Action::Kind::kKill, i});
    }
  }
  return actions;
}

absl::Time Supervisor::NextWake() const {
  absl::Time wake = absl::InfiniteFuture();
  if (state_ == JobState::kRunning && run_policy_.active_deadline_seconds > 0) {
    wake = job_start_ + absl::Seconds(run_policy_.active_deadline_seconds);
  }
  if (state_ == JobState::kRunning) wake = std::min(wake, TrainersEndBy());
  for (const Replica& replica : replicas_) {
    if (replica.phase == Phase::kWaiting && !IsHeld(replica)) wake = std::min(wake, replica.start_at);
    if (replica.phase == Phase::kTerminating) wake = std::min(wake, replica.kill_at);
  }
  return wake;
}

bool Supervisor::Done() const { return state_ != JobState::kRunning && std::ranges::all_of(replicas_, HasEnded); }

}  // namespace trainyard::engine
