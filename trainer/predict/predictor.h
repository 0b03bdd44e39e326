// Outputs of a trained model for examples without labels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/executor.h"
#include "trainer/predict/trained_model.h"

namespace trainyard::engine {

// Not thread-safe. Model and backend must outlive it.
class Predictor {
 public:
  // InvalidArgument: the model takes tokens, or labels each step of a sequence.
  static absl::StatusOr<std::unique_ptr<Predictor>> Create(const TrainedModel& model, Backend& backend);

  const TrainedModel& model() const { return model_; }
  // 0: the model gives numbers, not classes.
  int classes() const { return classes_; }
  // Numbers for each example: probabilities of the classes, or the prediction.
  int64_t outputs() const { return outputs_; }
  // The number of examples that are best predicted at once; it bounds the memory.
  int64_t batch_size() const;

  // `bytes` are `examples` examples of kU8 or kF32, as a file holds them: the training's transforms
  // are applied. [examples][outputs()], valid until the next call; not finite where a training has
  // diverged or an example has very large numbers.
  absl::StatusOr<std::span<const float>> Predict(DType dtype, std::span<const std::byte> bytes, int64_t examples);

 private:
  Predictor(const TrainedModel& model, Backend& backend) : model_(model), backend_(backend) {}
  absl::StatusOr<Executor*> ExecutorFor(int64_t examples);

  const TrainedModel& model_;
  Backend& backend_;
  int classes_ = 0;
  int64_t outputs_ = 0;
  std::map<int64_t, std::unique_ptr<Executor>> executors_;  // by the number of examples
  std::vector<float> values_;
};

}  // namespace trainyard::engine
