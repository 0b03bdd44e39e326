#include "trainer/backend/cuda/resident_optimizer.h"

#include <utility>

#include "trainer/base/status_macros.h"

namespace trainyard::engine::cuda {

absl::StatusOr<std::unique_ptr<ResidentOptimizer>> ResidentOptimizer::Create(Device& device, Health& health,
                                                                             const DeviceTrainingOptions& options) {
  TY_ASSIGN_OR_RETURN(std::unique_ptr<ResidentTraining> training,
                      ResidentTraining::Create(device, health, /*loss_scale=*/nullptr, options, UpdateOf::kGroup));
  return std::unique_ptr<ResidentOptimizer>(new ResidentOptimizer(device, health, std::move(training)));
}

// Next values begin as those that the parameters have: a step may give none.
absl::Status ResidentOptimizer::Load(const ParameterSet& parameters, std::span<const ParameterSet> slots) {
  TY_RETURN_IF_ERROR(training_->Load(parameters, slots));
  return training_->LeaveOut();
}

void ResidentOptimizer::Give(int key, std::span<const float> result) {
  health_.Try("upload of a gradient", [&] { return device_.Upload(result.data(), result.size_bytes(), training_->result(key)); });
}

absl::Status ResidentOptimizer::Update(const UpdateContext& context) {
  TY_RETURN_IF_ERROR(training_->BeginStep(context));
  training_->Apply();
  return health_.status();
}

}  // namespace trainyard::engine::cuda
