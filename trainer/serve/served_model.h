// One version of a model, compiled for every batch size, warm, with its queue.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/predict/predictor.h"
#include "trainer/predict/trained_model.h"
#include "trainer/serve/batcher.h"
#include "trainer/serve/signature.h"

namespace trainyard::engine {

// Thread-safe. The destructor answers all requests first.
class ServedModel {
 public:
  using BackendMaker = std::function<absl::StatusOr<std::unique_ptr<Backend>>()>;

  // Loads the checkpoint and runs it once with each batch size. Errors of LoadTrainedModel and
  // Predictor::Create and LoadText. FailedPrecondition: the model gives numbers that are not finite
  // for zeros.
  static absl::StatusOr<std::shared_ptr<ServedModel>> Load(const TrainedModelOptions& checkpoint, const BatcherOptions& options,
                                                           const BackendMaker& make_backend, Batcher::Listener listener);

  // Its training step.
  int64_t version() const { return *version_; }
  // Tells it from other versions, also from those of the same step.
  const std::shared_ptr<const int64_t>& identity() const { return version_; }
  // Whether it carries something from request to request of a sequence.
  bool carries_state() const { return predictor_->state_size() > 0; }
  const std::string& checkpoint() const { return model_.checkpoint; }
  const Signature& signature() const { return *signature_; }
  Batcher& batcher() { return *batcher_; }

 private:
  explicit ServedModel(TrainedModel model) : model_(std::move(model)), version_(std::make_shared<const int64_t>(model_.step)) {}
  absl::Status WarmUp(int64_t most_batch);
  absl::Status WarmUpReading(int64_t most_batch);

  const TrainedModel model_;
  const std::shared_ptr<const int64_t> version_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Predictor> predictor_;  // of the batcher
  std::unique_ptr<Signature> signature_;
  std::unique_ptr<Batcher> batcher_;  // last: its thread uses all of the above
};

}  // namespace trainyard::engine
