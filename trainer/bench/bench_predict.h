// Measures predictions of a checkpoint as `predict` and `serve` make them, without files and HTTP.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace trainyard::engine {

struct PredictBenchOptions {
  std::string checkpoint;  // as FindCheckpoint takes it
  int64_t batch = 1;       // examples of a call, 1 to 1024
  int threads = 1;         // 0: as many as the cgroup allows
  std::string isa = "auto";
  double seconds = 3.0;  // to measure for, after a tenth of it to warm up; at least 20 calls are measured
};

struct PredictBenchResult {
  PredictBenchOptions options;
  std::string isa;
  int64_t calls = 0;
  double median_microseconds = 0;  // of a call
  double p99_microseconds = 0;
  double best_microseconds = 0;
  int64_t max_rss_bytes = 0;
};

// Calls Predictor::Predict with made-up examples: bytes, or tokens of a model that reads text,
// whose rows each go on from the call before. InvalidArgument: options outside their ranges. Errors
// of LoadTrainedModel, LoadText and Predictor.
absl::StatusOr<PredictBenchResult> BenchPredict(const PredictBenchOptions& options);

// {checkpoint, batch, threads, isa, calls, medianMicroseconds, p99Microseconds, bestMicroseconds,
// maxRssBytes}, ended by a line end.
std::string PredictBenchJson(const PredictBenchResult& result);
// The same as a line for people.
std::string PredictBenchText(const PredictBenchResult& result);

}  // namespace trainyard::engine
