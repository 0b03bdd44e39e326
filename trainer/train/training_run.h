// The parts and the place of a replica that trains, as the step loop, the checkpoints and the
// chief's work share them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/device_group.h"
#include "trainer/backend/device_optimizer.h"
#include "trainer/base/clock.h"
#include "trainer/base/lendable_memory.h"
#include "trainer/checkpoint/evaluation_book.h"
#include "trainer/checkpoint/run_saver.h"
#include "trainer/data/dataset.h"
#include "trainer/data/sampler.h"
#include "trainer/devices/choose_devices.h"
#include "trainer/devices/gpu_meter.h"
#include "trainer/job/replica_identity.h"
#include "trainer/job/training_config.h"
#include "trainer/optim/loss_scale.h"
#include "trainer/optim/updater.h"
#include "trainer/report/recorder.h"
#include "trainer/report/redone_log.h"
#include "trainer/train/activity_ticker.h"
#include "trainer/train/choose_precision.h"
#include "trainer/train/device.h"
#include "trainer/train/model_runner.h"
#include "trainer/train/profiler.h"

namespace trainyard::engine {

struct TrainerOptions {
  ReplicaIdentity identity;
  TrainingConfig config;
  std::string output = ".";  // folder for checkpoints, summaries, profiles and the report; relative folders of the job file are below it
  int http_port = 0;         // of /progress; 0: any free one
  LossScaleOptions loss_scale;
};

// Where a worker computes: on `whole` it evaluates, on one of `devices` each of its devices trains,
// meanwhile `whole` rests. With one device both may be the same.
struct WorkerBackends {
  Backend& whole;
  std::vector<Backend*> devices;  // as many as config.devices
  PrecisionChoice precision;
  DeviceChoice place;        // where all of them are
  GpuMeter* gpus = nullptr;  // of the GPUs among them; null: there are none, or nobody measures
};

// Used from one thread. `backends` and `clock` must outlive it.
struct TrainingRun {
  TrainingRun(TrainerOptions its_options, const WorkerBackends& backends, Clock& its_clock)
      : options(std::move(its_options)),
        config(options.config),
        clock(its_clock),
        precision(backends.precision),
        loss_scale(precision.precision == Precision::kFloat16 ? std::optional(LossScale(options.loss_scale)) : std::nullopt),
        place(backends.place),
        gpus(backends.gpus),
        kernels(backends.whole.kernels()),
        threads(backends.whole.threads()),
        evaluated_model(config.model, backends.whole) {}
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  // "worker-0"
  std::string Name() const;
  bool chief() const { return options.identity.is_chief(); }
  bool async() const;
  bool sync() const;  // with parameter servers or all-reduce: all workers do the same steps
  // `parameters` of a step are those of the servers, rounded.
  bool trains_rounded() const { return config.strategy.compression != Compression::kNone; }
  bool all_reduce() const { return config.strategy.kind == StrategyConfig::Kind::kAllReduce; }
  int workers() const { return std::max(1, options.identity.trainer_count()); }
  int rank() const { return options.identity.trainer_rank(); }
  // Of all workers together.
  int all_devices() const { return workers() * config.devices; }
  // Steps of all workers together.
  int64_t JobSteps(int64_t worker_steps) const;
  // Sync: the input goes on there, and the planned end follows from it.
  void GoOnFrom(const InputOrigin& where);
  // This worker does no more steps.
  void EndHere();

  const TrainerOptions options;
  const TrainingConfig& config;  // of options
  Clock& clock;
  const PrecisionChoice precision;                    // of the backends
  std::optional<LossScale> loss_scale;                // of this worker; nothing: its precision needs none
  const DeviceChoice place;                           // of the backends
  GpuMeter* const gpus;                               // of the backends
  const std::string_view kernels;                     // of the backends
  ThreadPool* const threads;                          // all of this worker, for use while no device computes; may be null
  ModelRunner evaluated_model;                        // on all threads of this worker
  std::unique_ptr<DeviceGroup> on_devices;            // the devices keep parameters and gradients; may be null
  std::unique_ptr<DeviceOptimizer> device_optimizer;  // of an all-reduce: the one device keeps the parameters; may be null
  std::string device_kind;                            // its device's; "": none
  std::vector<std::unique_ptr<Device>> devices;       // of this worker; each trains on its share of the threads
  std::unique_ptr<Dataset> train_data;
  std::unique_ptr<Dataset> eval_data;        // null: nothing is evaluated
  InputOrigin origin;                        // of the samplers
  std::unique_ptr<Sampler> sampler;          // of the first device: steps and epochs are those of all
  ParameterSet parameters;                   // of the last Updater::Refresh, where a device keeps them
  std::shared_ptr<LendableMemory> lendable;  // of gradients that peers of this machine read where they lie; may be null
  std::unique_ptr<Profiler> profiler;
  std::unique_ptr<Updater> updater;  // writes to the profiler's log
  std::unique_ptr<ActivityTicker> ticker;
  std::unique_ptr<RunSaver> saver;
  std::unique_ptr<RedoneLog> redone;  // chief of a synchronous job, from the first step on
  std::unique_ptr<Recorder> recorder;
  std::unique_ptr<EvaluationBook> book;  // chief only, from the first step on

  std::function<bool()> stop = [] { return false; };  // this replica was asked to stop
  std::optional<AllReduceRecord> all_reduce_record;   // how gradients are added, since the last group formed
  TrainingStart start;                                // the last one
  int64_t planned_end = 0;                            // of this worker
  int64_t end_step = 0;                               // planned, or where the chief has ended the training
  int64_t step = 0;                                   // the next step of this worker
  int64_t global_step = 0;
  bool ended = false;  // by the chief, before the planned end
  bool begun = false;  // the step loop
};

// Opens the data, compiles the model, and connects the updater. Errors name the file, field or
// peer.
absl::StatusOr<std::unique_ptr<TrainingRun>> AssembleRun(TrainerOptions options, const WorkerBackends& backends, Clock& clock);

// The newest good checkpoint's state, or the start values. `again`: of a training that was under
// way, see KvClientOptions::load.
absl::StatusOr<TrainingState> LoadState(TrainingRun& run, bool again);

}  // namespace trainyard::engine
