// A replica's report of its part of a job, as plain records.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/report/meters.h"
#include "trainer/report/usage_series.h"

namespace trainyard::engine {

// One epoch.
struct EpochRecord {
  int64_t epoch = 0;
  int64_t step = 0;  // at its end
  double loss = 0;   // mean over its batches
  double seconds = 0;
  std::optional<double> perplexity;    // exp(loss), of a language model
  std::map<std::string, double> eval;  // "loss", "accuracy" or "perplexity"; empty when it was not evaluated
};

// One GPU of a worker over the run, with all that any process did on it.
struct GpuRecord {
  int gpu = 0;  // its number among those that the worker saw
  std::string name;
  int64_t memory_total_bytes = 0;
  int64_t max_memory_used_bytes = 0;  // the most that a sample showed
  std::optional<double> utilization;  // the mean share of time in which a kernel ran; nothing for a slice of a GPU
};

struct WorkerRecord {
  int index = 0;
  int64_t batches = 0;
  int64_t examples = 0;
  int64_t skipped = 0;                // of the batches: loss or gradient were not finite, and training.onNonFinite left the step out
  std::optional<double> loss_scale;   // of the last step, where the precision has one
  std::optional<int64_t> overflowed;  // of the batches: left out for a gradient beyond float16's range
  double seconds = 0;                 // without start-up
  double input_seconds = 0;
  std::map<std::string, double> input_stages;  // seconds by stage of the input pipeline, mostly spent while something is computed
  double compute_seconds = 0;
  double communication_seconds = 0;
  std::optional<int64_t> slot_bytes;  // of the optimizer, where workers keep them
  int64_t bytes_sent = 0;             // to servers, and from them
  int64_t bytes_received = 0;
  UsageRecord usage;
  std::optional<std::vector<GpuRecord>> gpus;  // nothing: it computed on the processor
};

struct ServerRecord {
  int index = 0;
  int64_t bytes = 0;  // of parameters held
  int64_t keys = 0;
  int64_t bytes_sent = 0;  // to workers, and from them
  int64_t bytes_received = 0;
  int64_t refused_streams = 0;  // turned away: no key, silent, or what does not fit
  UsageRecord usage;
};

// What one evaluation of a checkpoint gave.
struct ScoreRecord {
  int64_t step = 0;
  int64_t epoch = 0;
  std::map<std::string, double> metrics;  // "loss", "accuracy" or "perplexity"
  std::optional<double> seconds;          // that it took; nothing where an earlier process evaluated
};

// The evaluations of the training by the job's evaluator, those of its earlier processes too.
struct EvaluatorRecord {
  int index = 0;
  int64_t evaluations = 0;
  std::string metric;  // by which one is the best
  std::optional<ScoreRecord> best;
  std::optional<ScoreRecord> last;
};

struct Staleness {
  double mean = 0;
  int64_t max = 0;
};

struct RestartRecord {
  std::string replica;  // "worker-0"
  std::string reason;   // "killed by signal 9"
  int64_t step = -1;    // at which it went on; -1 unknown
  int64_t lost_steps = 0;
};

// checkpoint.keepBest, or earlyStopping.restoreBest.
struct BestRecord {
  std::string metric;
  double value = 0;
  int64_t step = 0;
  std::string checkpoint;  // its folder
  bool restored = false;   // the job's result is this checkpoint
};

struct EarlyStopRecord {
  std::string reason;
  int64_t step = 0;
};

// Steps [from, to) of a synchronous job were done again, with the same bits.
struct RedoneRecord {
  int64_t from = 0;
  int64_t to = 0;
  std::string reason;
};

// A worker of a synchronous job was slow beside the others from step `from` on: its own time of a
// step, without waits, and the median.
struct StragglerRecord {
  std::string replica;
  std::string node;
  int64_t from = 0;
  std::optional<int64_t> to;  // absent: to the end
  double step_seconds = 0;
  double median_seconds = 0;
};

// How an all-reduce job adds its gradients.
struct AllReduceRecord {
  std::string algorithm;                   // "direct up to 64 KiB, halvingDoubling above"
  std::optional<double> latency_seconds;   // of one message; measured, with `algorithm: auto`
  std::optional<double> bytes_per_second;  // a rank hears and sends, of large buckets
};

// The report of one replica: replicas/<role>-<index>.json. The chief also fills the job's fields.
struct ReplicaReport {
  std::string role;
  int index = 0;
  std::optional<WorkerRecord> worker;
  std::optional<ServerRecord> server;
  std::optional<EvaluatorRecord> evaluator;
  std::optional<Staleness> staleness;
  std::vector<RestartRecord> restarts;  // seen from inside: resumed from a checkpoint, lost steps …
  // Chief only.
  bool chief = false;
  SpeedUnit unit;
  std::string model;
  std::string strategy;
  int64_t batch_size = 0;
  int devices = 1;               // of each worker
  std::string precision;         // of the chief's products
  std::string precision_reason;  // of training.precision: auto; else ""
  std::string kernels;           // that the chief's products ran on: "avx512", "amx"
  std::string computed_on;       // where the chief's devices were: "cpu", "cuda:0 and cuda:1"
  std::string computed_on_reason;
  int64_t epochs = 0;          // begun
  int64_t planned_epochs = 0;  // 0: the job counts steps
  int64_t steps = 0;           // done, of all workers together
  int64_t planned_steps = 0;
  std::optional<double> first_loss;  // the mean of the chief's first training losses, and its smoothed last one
  std::optional<double> last_loss;
  std::string warning;  // what a person should look at, although the job did its steps; "": nothing
  std::map<std::string, double> eval;
  std::vector<EpochRecord> history;
  std::vector<RedoneRecord> redone;
  std::vector<StragglerRecord> stragglers;
  std::string parameters_sha256;
  std::optional<BestRecord> best;
  std::optional<EarlyStopRecord> stopped_early;
  std::optional<AllReduceRecord> all_reduce;
};

}  // namespace trainyard::engine
