// An optimizer on a device whose gradients the host gives: a training whose mean is made elsewhere.
#pragma once

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/health.h"
#include "trainer/backend/cuda/resident_training.h"
#include "trainer/backend/device_optimizer.h"

namespace trainyard::engine::cuda {

class ResidentOptimizer final : public DeviceOptimizer {
 public:
  // Device and health outlive it. InvalidArgument: an optimizer that is not known.
  static absl::StatusOr<std::unique_ptr<ResidentOptimizer>> Create(Device& device, Health& health, const DeviceTrainingOptions& options);

  void* parameter(int key) override { return training_->parameter(key); }
  absl::Status Load(const ParameterSet& parameters, std::span<const ParameterSet> slots) override;
  absl::Status FetchParameters(ParameterSet& parameters) override { return training_->FetchParameters(parameters); }
  absl::Status FetchSlots(std::span<ParameterSet> slots) override { return training_->FetchSlots(slots); }
  int64_t slot_bytes() const override { return training_->slot_bytes(); }
  void Give(int key, std::span<const float> result) override;
  absl::Status Update(const UpdateContext& context) override;

 private:
  ResidentOptimizer(Device& device, Health& health, std::unique_ptr<ResidentTraining> training)
      : device_(device), health_(health), training_(std::move(training)) {}

  Device& device_;
  Health& health_;
  const std::unique_ptr<ResidentTraining> training_;  // of a group: it takes a mean as it is
};

}  // namespace trainyard::engine::cuda
