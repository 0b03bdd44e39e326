// How far a replica is: what GET /progress and /metrics tell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "trainer/checkpoint/evaluation_judge.h"
#include "trainer/devices/gpu_meter.h"
#include "trainer/report/meters.h"

namespace trainyard::engine {

// status.progress of a TrainingJob, under the same names in JSON.
struct Progress {
  int64_t step = 0;
  int64_t total_steps = 0;
  int64_t epoch = 0;
  std::optional<double> loss;             // null where it is not finite
  std::optional<double> perplexity;       // of the training loss; language models only
  std::map<std::string, double> metrics;  // of the last evaluation: "accuracy" …
  double batches_per_second = 0;
  double examples_per_second = 0;
  SpeedUnit unit;
  std::optional<absl::Duration> eta;
  std::optional<int64_t> last_checkpoint_step;
  std::optional<int64_t> best_checkpoint_step;
  std::string stopped_early;            // why; "": the training goes on, or went on to its planned end
  std::string warning;                  // what a person should look at: "the loss is 62, far above …"; "": nothing
  std::string waiting;                  // "worker-0 waits for worker-2 at step 31, 12 s"; "": nobody has waited for long
  std::vector<std::string> stragglers;  // replicas that are slow beside the others, at most kMostStragglers
  static constexpr size_t kMostStragglers = 64;
  std::vector<Evaluation> evaluations;  // the newest ones, at most kMostEvaluations, steps rise
  static constexpr size_t kMostEvaluations = 8;
  absl::Time updated_time = absl::UnixEpoch();

  // For /metrics only: totals since the replica's start, in seconds and bytes.
  std::optional<int64_t> refused_streams;  // of a server
  double input_seconds = 0;
  double compute_seconds = 0;
  double communication_seconds = 0;
  std::vector<std::pair<std::string, double>> worker_step_seconds;  // sync: own time of a step, by replica
  std::vector<std::pair<std::string, double>> input_stages;         // seconds by stage of the input pipeline
  std::vector<GpuReading> gpus;                                     // the newest; none without GPUs
};

std::string ProgressJson(const Progress& progress);
// Prometheus text format; `role` and `index` become labels.
std::string ProgressMetrics(const Progress& progress, const std::string& role, int index);

}  // namespace trainyard::engine
