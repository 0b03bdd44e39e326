// The output folder of a run → what its page shows.
#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/page/scalar_history.h"

namespace trainyard::engine {

// Bounds of a page, whatever the run was.
inline constexpr size_t kMostPagePoints = 1000;  // of a curve (Downsample)
inline constexpr size_t kMostPageReplicas = 64;  // in tables
inline constexpr size_t kMostPageSettings = 2000;
inline constexpr size_t kMostPageCurves = 8;     // replicas with a curve of their own
inline constexpr size_t kMostPageRecords = 100;  // of failures, restarts, steps that came again …

// Of one run, once or again and again while it trains: what it has read of event files stays read.
// Not thread-safe.
class RunReader {
 public:
  explicit RunReader(std::string dir) : dir_(std::move(dir)) {}

  // One object; all but `name` and `dir` may be absent:
  //   name, dir    the job and its folder
  //   report       report.json, its lists no longer than the bounds above; `leftOut` says of which list how many items are missing
  //   settings     [[path, text]]: the lines of spec.training as the job file and --set had it (settings.h)
  //   curves       {"loss": [{"name": "worker-0", "points": [[step, value], …]}], "perplexity", "speed", "learningRate"}; null: not finite
  //   evaluations  [{"step", "epoch", "metrics"}], steps rise
  //   evaluation   evaluation.json: confusion matrix and mistakes (report/evaluation_record.h)
  //   trace        true: trace.json is beside the page
  //   timeline     some steps of it (step_timeline.h), of a run that has ended; or null
  // NotFound: `dir` is no output folder of a run. DataLoss, InvalidArgument name a file that cannot
  // be read.
  // planned_steps: of a run without a report, how far its learning rate is drawn; 0: to the last
  // step of its curves.
  absl::StatusOr<nlohmann::ordered_json> Read(int64_t planned_steps = 0);

 private:
  absl::StatusOr<nlohmann::ordered_json> ReadFiles(int64_t planned_steps);
  void AddCurves(const std::string& summaries, nlohmann::ordered_json& run);

  const std::string dir_;
  std::map<std::string, ScalarHistory> histories_;  // by replica
};

}  // namespace trainyard::engine
