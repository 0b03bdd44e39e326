// A training in a device's memory: all parameters side by side, so that one kernel updates them.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/health.h"
#include "trainer/backend/device_training.h"
#include "trainer/optim/optimizer_config.h"

namespace trainyard::engine::cuda {

// Whose gradients the optimizer takes.
enum class UpdateOf : uint8_t {
  kStep,   // the step's own: Update applies the optimizer
  kGroup,  // a mean of several devices' or ranks': Update makes them ready to be added, Apply follows
};

class ResidentTraining final : public DeviceTraining {
 public:
  // `loss_scale`: of the step in hand, in device memory; null: the precision needs none. All three
  // outlive it. InvalidArgument: an optimizer that is not known.
  static absl::StatusOr<std::unique_ptr<ResidentTraining>> Create(Device& device, Health& health, const float* loss_scale,
                                                                  const DeviceTrainingOptions& options,
                                                                  UpdateOf update_of = UpdateOf::kStep);

  void* parameter(int key) override { return At(parameters_, key); }
  void* result(int key) override { return At(results_, key); }
  absl::Status Load(const ParameterSet& parameters, std::span<const ParameterSet> slots) override;
  absl::Status FetchParameters(ParameterSet& parameters) override { return Fetch(parameters_, parameters); }
  absl::Status FetchSlots(std::span<ParameterSet> slots) override;
  absl::Status FetchResults(ParameterSet& results) override { return Fetch(results_, results); }
  int64_t slot_bytes() const override { return static_cast<int64_t>(slots_.size()) * all_ * int64_t{sizeof(float)}; }
  absl::Status BeginStep(const UpdateContext& context) override { return BeginStep(context, 1.0F); }
  void Update(const void* loss) override;
  void Take(int key, const void* value) override;
  const void* outcome() const override { return outcome_->data(); }

  // Of a mean. All results side by side: gradients() floats of gradients first, all() together.
  float* results() const { return Begin(results_); }
  int64_t gradients() const { return trainable_; }
  int64_t all() const { return all_; }
  absl::Status BeginStep(const UpdateContext& context, float weight);
  // Gradients become 0, next values those that the parameters have.
  absl::Status LeaveOut();
  // Starts the optimizer.
  void Apply();

 private:
  using Memory = std::unique_ptr<DeviceMemory>;

  ResidentTraining(Device& device, Health& health, const float* loss_scale, const DeviceTrainingOptions& options, UpdateOf update_of);
  absl::Status Allocate();
  absl::StatusOr<Work> UpdateWork() const;
  const OutcomeOnDevice* Judged() const;
  absl::Status Judge(const float* loss);
  absl::Status StartApply();
  float* At(const Memory& block, int key) const { return reinterpret_cast<float*>(block->data()) + offsets_[key]; }
  static float* Begin(const Memory& block) { return reinterpret_cast<float*>(block->data()); }
  absl::Status Store(const ParameterSet& host, const Memory& block);
  absl::Status Fetch(const Memory& block, ParameterSet& host);

  Device& device_;
  Health& health_;
  const float* const loss_scale_;
  const OptimizerConfig config_;
  const bool skips_;
  const UpdateOf update_of_;
  const std::vector<ParameterSpec> specs_;
  // In floats. Trainable parameters come first; each begins at kBufferAlignment, and the gaps stay
  // zero.
  std::vector<int64_t> offsets_;  // by key
  int64_t trainable_ = 0;
  int64_t all_ = 0;
  Memory parameters_, results_;
  std::vector<Memory> slots_;
  Memory numbers_;  // UpdateNumbers
  Memory outcome_;  // OutcomeOnDevice
  Memory good_;     // likewise, of a mean: each share was judged by itself
  Memory partial_;  // of the sum of squares; null where it needs none
  Work update_;
};

}  // namespace trainyard::engine::cuda
