// A model on a backend: compiled executors, one for each batch size that comes up, and what a batch
// feeds them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/executor.h"
#include "trainer/data/batch.h"
#include "trainer/data/dataset.h"
#include "trainer/data/sampler.h"
#include "trainer/model/metrics.h"
#include "trainer/model/model_spec.h"

namespace trainyard::engine {

// The requirements of `spec` on a data set.
absl::StatusOr<ExpectedData> ExpectedDataOf(const ModelSpec& spec);

// Zeros for what a graph keeps from step to step.
ParameterSet ZeroState(const Graph& graph);

// Not thread-safe. `backend` must outlive it.
class ModelRunner {
 public:
  // `training`: of its training executors, where the backend keeps parameters. TrainOnDevice needs
  // a DeviceTraining.
  ModelRunner(ModelSpec spec, Backend& backend, const ExecutorOptions& training = {})
      : spec_(std::move(spec)), backend_(backend), training_options_(training) {}

  const ModelSpec& spec() const { return spec_; }

  // Forward and backward of one batch: gradients in `gradients`, each announced to `sink` as soon
  // as it is final. Returns the batch's mean loss. `parameters` are not read where a device keeps
  // them.
  absl::StatusOr<double> Train(const StepContext& step, const Batch& batch, const ParameterSet& parameters, ParameterSet& gradients,
                               GradientSink* sink);

  // Forward, backward and update of one batch where parameters and gradients stay on the device,
  // after DeviceTraining::BeginStep.
  absl::StatusOr<StepOutcome> TrainOnDevice(const StepContext& step, const Batch& batch);

  // The model over a whole data set, `batch_size` examples at a time, in order (a stream in that
  // many rows, as in training). State starts with zeros and goes from batch to batch.
  // `seen` may be empty; else it is called after each batch, when the executor's outputs are those
  // of the batch. Its error ends the evaluation.
  using BatchSeen = std::function<absl::Status(const Batch& batch, const Executor& executor)>;
  absl::StatusOr<ModelScore> Evaluate(const Dataset& dataset, int64_t batch_size, const ParameterSet& parameters,
                                      const BatchSeen& seen = {});

  // The batches of an evaluation. Errors of Sampler::Create.
  static absl::StatusOr<Sampler> EvaluationSampler(const DatasetInfo& data, int64_t batch_size);
  // Of all of them.
  static absl::StatusOr<int64_t> EvaluatedExamples(const DatasetInfo& data, int64_t batch_size);

  // The state that layers keep from batch to batch of training, by name ("lstm/h", "lstm/c"),
  // [rows, units] each. Train reads and replaces it, so a checkpoint stores and restores it through
  // this. Null when the model keeps none. InvalidArgument when it was made for other rows: row n of
  // a batch goes on where row n of the last one ended.
  absl::StatusOr<ParameterSet*> TrainingState(int64_t examples);
  // Zeros: at the start of a pass over the data.
  void ResetState();

  // The training executor of a batch of `examples`, compiled at its first use.
  absl::StatusOr<Executor*> TrainingExecutor(int64_t examples);

 private:
  using Executors = std::map<int64_t, std::unique_ptr<Executor>>;
  absl::StatusOr<Executor*> EvaluationExecutor(int64_t examples);

  const ModelSpec spec_;
  Backend& backend_;
  const ExecutorOptions training_options_;
  ParameterSet state_;
  int64_t state_examples_ = 0;  // 0: not made yet
  Executors training_;
  Executors evaluation_;
};

}  // namespace trainyard::engine
