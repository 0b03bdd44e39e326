// Decides what happens to the replicas of a local job: when each starts, is restarted or stopped,
// and when the job has ended and how. Pure: time comes in as an argument, and the caller owns the
// processes. The rules are those of the operator (docs/contract.md), so that a file behaves the
// same with and without a cluster.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "trainer/job/job_config.h"
#include "trainer/job/replica_identity.h"
#include "trainer/launch/replica_process.h"

namespace trainyard::engine {

enum class JobState { kRunning, kSucceeded, kFailed, kStopped };

// "Running", "Succeeded", "Failed", "Stopped"
std::string_view JobStateName(JobState state);

struct ReplicaId {
  Role role = Role::kWorker;
  int index = 0;
};

// "worker-1"
std::string Name(const ReplicaId& id);

// One thing to do now.
struct Action {
  enum class Kind { kStart, kTerminate, kKill };
  Kind kind;
  int replica;  // index into the list the supervisor was made with

  friend bool operator==(const Action&, const Action&) = default;
};

// What a request to stop changes.
enum class StopAnswer {
  kNothing,  // the signal belongs to the one before (base/one_stop.h)
  kStops,    // the job stops: all replicas get their grace
  kWaits,    // the job has failed: its replicas go on with their grace
  kKills     // all replicas end at once
};

// A failure of a replica, in the order of time: the report's `failures`.
struct ReplicaFailure {
  std::string replica;
  ExitStatus exit;
  std::string error;  // the last error of its log, "" where it wrote none
  bool restarted = false;
  int restart = 0;     // which one of runPolicy.backoffLimit; 0: it spends none
  double seconds = 0;  // since the job's start
};

// Replicas that had ended with 0 and started again, as others still needed them.
struct SecondStart {
  std::vector<std::string> replicas;   // "ps-0", "worker-1"
  std::vector<std::string> needed_by;  // "worker-0"
};

// "worker-1: cannot open …", or "worker-1 failed with signal 9 (Killed)" where it wrote no error.
std::string Describe(const ReplicaFailure& failure);

// Not thread-safe. Call Advance after every change and whenever NextWake() passes, and carry its
// actions out in order.
class Supervisor {
 public:
  struct Options {
    absl::Duration stop_grace = absl::Seconds(10);     // from SIGTERM to SIGKILL: more than timeouts.stop
    absl::Duration backoff_reset = absl::Minutes(10);  // of running, after which the delays of a replica start over
    absl::Duration max_backoff = absl::Minutes(5);
    absl::Duration ending = absl::Seconds(10);  // from a peer's end with 0 to the end of every trainer
  };

  // `replicas` in start order: servers first.
  Supervisor(const JobConfig& job, std::vector<ReplicaId> replicas, Options options, absl::Time now);

  // Replica `replica`, which was started by an Action, has ended. `error` is the last error that it
  // wrote.
  void Exited(int replica, const ExitStatus& exit, absl::Time now, std::string error = "");
  // The user asked to stop (Ctrl-C): all replicas get SIGTERM and their grace; asked again,
  // SIGKILL. Replicas of a job that fails have their grace already, and keep it.
  StopAnswer StopRequested(absl::Time now);
  // After the end of the job: no replica has anything to save, so all get SIGKILL.
  void KillAll() { kill_all_ = true; }

  std::vector<Action> Advance(absl::Time now);
  // When Advance has something to do even if nothing happens; infinite future when never.
  absl::Time NextWake() const;

  // True once the state is final and no process is left.
  bool Done() const;
  JobState state() const { return state_; }
  // "" while all is well; else why the job failed or stopped, naming the replica and its last
  // error.
  const std::string& message() const { return message_; }
  // Of the whole job: 0 succeeded, 130 stopped by the user, else the code of the replica that
  // failed it; 1 where none did.
  int exit_code() const { return exit_code_; }
  int restarts() const { return restarts_; }
  const std::vector<ReplicaFailure>& failures() const { return failures_; }
  const std::vector<SecondStart>& second_starts() const { return second_starts_; }

 private:
  enum class Phase { kWaiting, kRunning, kTerminating, kKilled, kSucceeded, kEnded };
  struct Replica {
    ReplicaId id;
    RestartPolicy policy;
    Phase phase = Phase::kWaiting;
    absl::Time start_at;                          // kWaiting
    absl::Time started_at;                        // kRunning and later
    absl::Time kill_at = absl::InfiniteFuture();  // kTerminating
    absl::Time ended_at;                          // kSucceeded
    int consecutive_failures = 0;
    bool ends_with_all = false;  // to start again with a replica that failed (restartScope: Job)
  };

  static bool IsServer(const Replica& replica) { return replica.id.role == Role::kPs; }
  static bool HasEnded(const Replica& replica) { return replica.phase == Phase::kSucceeded || replica.phase == Phase::kEnded; }
  bool IsChief(const Replica& replica) const;
  // Plans the restart of a replica that failed, or fails the job.
  void Failed(Replica& replica, const ExitStatus& exit, absl::Time now, std::string error);
  // With restartScope Job: all but the evaluator end, and start again when the last one has ended,
  // no sooner than `replica`.
  void EndAllWith(const Replica& replica);
  // Waits for the end of others that start again with it.
  bool IsHeld(const Replica& replica) const;
  bool AllSucceeded() const;
  // When every trainer must have ended, as servers end after the goodbyes of all workers, and the
  // ranks of an all-reduce after the chief's last word. Infinite future: no such peer has ended.
  absl::Time TrainersEndBy() const;
  // A trainer that has not ended by then was lost after its goodbye, or starts again since. What it
  // needs of its peers is gone with them, so all that ended with 0 start again.
  void StartPeersAgain(absl::Time now);
  // A failed job's servers have nothing to keep: once no trainer is left that reads them, they need
  // no grace.
  bool ServersAreNeedless() const;
  // Sets the final state and begins to stop what still runs.
  void End(JobState state, int exit_code, std::string message);

  const Options options_;
  const RunPolicy run_policy_;
  const absl::Time job_start_;
  const bool has_chief_;  // of its own, besides the workers
  std::vector<Replica> replicas_;
  JobState state_ = JobState::kRunning;
  std::string message_;
  int exit_code_ = 0;
  int restarts_ = 0;
  bool kill_all_ = false;
  std::optional<absl::Time> stop_asked_at_;
  std::vector<ReplicaFailure> failures_;
  std::vector<SecondStart> second_starts_;
};

}  // namespace trainyard::engine
