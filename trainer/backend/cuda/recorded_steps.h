// Steps of one executor: the first runs as it comes, the second is recorded, all others start the
// record.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/health.h"

namespace trainyard::engine::cuda {

class RecordedSteps final : public DeviceSteps {
 public:
  // Device and health outlive it.
  static absl::StatusOr<std::unique_ptr<RecordedSteps>> Create(Device& device, Health& health, std::vector<DeviceResult> results);

  void Run(const StepContext& step, absl::FunctionRef<void()> start) override;
  void StartDownload(int result) override;
  void FinishDownload(int result, const Tensor& host) override;

 private:
  // Of steps with one value of StepContext::training.
  struct Kind {
    bool has_run = false;
    bool refused = false;  // the device cannot record it
    std::unique_ptr<Recording> recording;
  };

  RecordedSteps(Device& device, Health& health, std::vector<DeviceResult> results)
      : device_(device), health_(health), results_(std::move(results)) {}
  void Record(Kind& kind, absl::FunctionRef<void()> start);

  Device& device_;
  Health& health_;
  const std::vector<DeviceResult> results_;
  std::vector<size_t> offsets_;  // of the results in the staging
  std::unique_ptr<DeviceMemory> staging_;
  std::array<Kind, 2> kinds_;  // [training]
  bool waits_ = false;         // the results of the last Run may not be there
};

}  // namespace trainyard::engine::cuda
