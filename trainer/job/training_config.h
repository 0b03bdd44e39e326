// A job's training (`spec.training`), checked, as plain data. Made by training_json.h; read by
// everything in train/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/base/timeouts.h"
#include "trainer/collectives/schedule.h"
#include "trainer/data/data_config.h"
#include "trainer/devices/device_request.h"
#include "trainer/model/model_spec.h"
#include "trainer/optim/optimizer_config.h"
#include "trainer/profile/step_range.h"
#include "trainer/tensor/compression.h"
#include "trainer/tensor/precision.h"

namespace trainyard::engine {

struct StrategyConfig {
  enum class Kind : uint8_t { kLocal, kParameterServer, kAllReduce };
  enum class Mode : uint8_t { kSync, kAsync };
  Kind kind = Kind::kLocal;
  Mode mode = Mode::kSync;                                   // kParameterServer only
  StalenessRule stale_gradients = StalenessRule::kAdapt;     // kAsync only
  Compression compression = Compression::kNone;              // kParameterServer only
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::kAuto;  // kAllReduce only
  bool shard_optimizer = false;                              // kAllReduce only
  friend bool operator==(const StrategyConfig&, const StrategyConfig&) = default;
};

// A metric of evaluation and which way is better; kAuto: by the metric's name.
enum class MetricMode : uint8_t { kAuto, kMin, kMax };
struct MetricRule {
  std::string metric = "loss";  // loss, accuracy or perplexity
  MetricMode mode = MetricMode::kAuto;
  friend bool operator==(const MetricRule&, const MetricRule&) = default;
};

struct CheckpointConfig {
  std::string dir;                      // "": <output>/checkpoints
  int64_t every_steps = 0;              // 0: not by steps
  int64_t every_seconds = 300;          // since the last one; 0: not by time
  int keep = 3;                         // the newest ones; >= 1
  std::optional<MetricRule> keep_best;  // beside them, the best by this metric
};

struct SummaryConfig {
  std::string dir;           // "": <output>/summaries
  int64_t every_steps = 20;  // 0: none are written
};

// Ends the training when a metric stops to improve, as Keras' EarlyStopping.
struct EarlyStoppingConfig {
  MetricRule rule;
  int64_t patience = 0;  // evaluations without an improvement after which the training ends; 0 is 1
  double min_delta = 0;  // the change must be larger to count as an improvement
  bool restore_best = false;
};

struct EvaluateConfig {
  int64_t every_epochs = 1;  // 0: not at the ends of epochs
  int64_t every_steps = 0;   // of the chief; 0: not between them. Without either: only once, at the end
  std::optional<EarlyStoppingConfig> early_stopping;
};

struct ProfileConfig {
  // As each worker counts its own steps; empty: nothing is recorded. The first steps are left out,
  // which warm up.
  StepRange steps = {.begin = 10, .end = 20};
};

// The fate of a step whose loss or gradient is NaN or infinite.
enum class OnNonFinite : uint8_t {
  kStop,  // the job fails
  kSkip,  // the worker pushes gradients of 0 and goes on
};

struct TrainingConfig {
  ModelSpec model;
  DataConfig data;
  std::string model_json, data_json;                         // the texts of `model` and `data`: checkpoints describe themselves by them
  int64_t batch_size = 32;                                   // per device, in every strategy
  int devices = 1;                                           // of each worker (docs/collectives.md, two levels)
  std::optional<Precision> precision = Precision::kFloat32;  // nothing: the faster one (train/choose_precision.h)
  // Exactly one of the two is > 0. Steps count per worker in async, global in sync.
  int64_t epochs = 0;
  int64_t steps = 0;
  OptimizerConfig optimizer;
  StrategyConfig strategy;
  uint64_t seed = 1;
  std::string init_from;  // a safetensors file with start values by parameter name; "": none
  CheckpointConfig checkpoint;
  SummaryConfig summary;
  EvaluateConfig evaluate;
  ProfileConfig profile;
  TimeoutsConfig timeouts;
  OnNonFinite on_non_finite = OnNonFinite::kStop;
  int threads = 0;            // 0: the cgroup's quota
  DeviceRequest on;           // where the worker's devices are: on GPUs or on the processor
  bool shared_memory = true;  // between replicas of one machine
  bool evaluator = false;     // the job has a replica that evaluates; set from the job file or the cluster's list, not from training
};

}  // namespace trainyard::engine
