#include "trainer/backend/device_group.h"

#include <utility>

#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

// The device clips, leaves out and updates in the step itself, and has all examples of it.
class LoneDevice final : public DeviceGroup {
 public:
  explicit LoneDevice(std::unique_ptr<DeviceTraining> training) : training_(std::move(training)) {}
  int devices() const override { return 1; }
  DeviceTraining& at(int /*device*/) override { return *training_; }
  absl::Status BeginStep(int /*device*/, const UpdateContext& context, float /*weight*/) override { return training_->BeginStep(context); }
  absl::Status LeaveOut(int /*device*/) override { return absl::OkStatus(); }
  absl::Status Update(const std::vector<bool>& /*with_examples*/, ThreadPool& /*threads*/) override { return absl::OkStatus(); }

 private:
  const std::unique_ptr<DeviceTraining> training_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceGroup>> OpenDeviceGroup(std::span<Backend* const> backends, const DeviceTrainingOptions& options) {
  if (backends.size() > 1) return backends[0]->MakeDeviceGroup(backends.subspan(1), options);
  TY_ASSIGN_OR_RETURN(std::unique_ptr<DeviceTraining> training, backends[0]->MakeDeviceTraining(options));
  if (training == nullptr) return nullptr;
  return std::make_unique<LoneDevice>(std::move(training));
}

}  // namespace trainyard::engine
