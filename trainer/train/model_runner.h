// A model on a backend: compiled executors, one for each batch size that comes up, and what a batch feeds them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/executor.h"
#include "trainer/data/batch.h"
#include "trainer/data/dataset.h"
#include "trainer/model/model_spec.h"

namespace trainyard::engine {

// What a data set must offer to train `spec`.
absl::StatusOr<ExpectedData> ExpectedDataOf(const ModelSpec& spec);

// Not thread-safe. `backend` must outlive it.
class ModelRunner {
 public:
  ModelRunner(ModelSpec spec, Backend& backend) : spec_(std::move(spec)), backend_(backend) {}

  const ModelSpec& spec() const { return spec_; }

  // Forward and backward of one batch: gradients in `gradients`, each announced to `sink` as soon as it is final. Returns the batch's mean
  // loss.
  absl::StatusOr<double> Train(const StepContext& step, const Batch& batch, const ParameterSet& parameters, ParameterSet& gradients,
                               GradientSink* sink);

  struct Evaluation {
    double loss = 0;      // mean over the examples
    double accuracy = 0;  // classification: the share of examples whose highest score is their label's
    int64_t examples = 0;
  };
  // The model over a whole data set, `batch_size` examples at a time, in order.
  absl::StatusOr<Evaluation> Evaluate(const Dataset& dataset, int64_t batch_size, const ParameterSet& parameters);

  // The training executor for `rows` examples, compiled at its first use.
  absl::StatusOr<Executor*> TrainingExecutor(int64_t rows);

 private:
  using Executors = std::map<int64_t, std::unique_ptr<Executor>>;
  absl::StatusOr<Executor*> EvaluationExecutor(int64_t rows);

  const ModelSpec spec_;
  Backend& backend_;
  Executors training_;
  Executors evaluation_;
};

// "accuracy" (classification) and "loss", as reports, summaries and /progress name them.
std::map<std::string, double> MetricsOf(const ModelSpec& spec, const ModelRunner::Evaluation& evaluation);

}  // namespace trainyard::engine
