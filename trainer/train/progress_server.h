// GET /progress (JSON), /metrics (Prometheus text) and /healthz of one replica.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/train/meters.h"

namespace trainyard::engine {

// status.progress of a TrainingJob, under the same names in JSON.
struct Progress {
  int64_t step = 0;
  int64_t total_steps = 0;
  int64_t epoch = 0;
  std::optional<double> loss;             // left out when absent or not finite
  std::optional<double> perplexity;       // of the training loss; language models only
  std::map<std::string, double> metrics;  // of the last evaluation: "accuracy" …
  double batches_per_second = 0;
  double examples_per_second = 0;
  SpeedUnit unit;
  std::optional<absl::Duration> eta;
  std::optional<int64_t> last_checkpoint_step;
  std::optional<int64_t> best_checkpoint_step;
  std::string stopped_early;  // why; "": the training goes on, or went on to its planned end
  absl::Time updated_time = absl::UnixEpoch();

  // For /metrics only: totals since the replica's start, in seconds and bytes.
  double input_seconds = 0;
  double compute_seconds = 0;
  double communication_seconds = 0;
  std::vector<std::pair<std::string, double>> input_stages;  // seconds by stage of the input pipeline
};

std::string ProgressJson(const Progress& progress);
// Prometheus text format; `role` and `index` become labels.
std::string ProgressMetrics(const Progress& progress, const std::string& role, int index);

struct ProgressServerOptions {
  std::string host = "0.0.0.0";
  int port = 0;  // 0: any free one
  std::string role = "worker";
  int index = 0;
};

// Answers from its own threads (at most two requests at a time); stopped and joined by the destructor. Thread-safe.
class ProgressServer {
 public:
  // Unavailable names host and port when it is in use.
  static absl::StatusOr<std::unique_ptr<ProgressServer>> Start(const ProgressServerOptions& options);
  ~ProgressServer();
  ProgressServer(const ProgressServer&) = delete;
  ProgressServer& operator=(const ProgressServer&) = delete;

  void Update(Progress progress);
  int port() const;

 private:
  struct State;
  explicit ProgressServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace trainyard::engine
