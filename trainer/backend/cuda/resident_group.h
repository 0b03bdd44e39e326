// A training on several devices: each has all parameters and slots. What the devices add up goes
// from device to device, not through the host.
//
// The results of a device lie in one block. It is cut into as many slices as there are devices, and
// slice d is device d's. An update has three phases, with the host's threads between them:
//   1. Each device marks its results as ready.
//   2. Device d copies slice d of the others' results behind those marks. It makes the mean, which
//      replaces its own slice d, and marks that.
//   3. Each device copies the others' slices behind those marks, marks that it has them, and runs
//      the optimizer.
// A device writes new results behind the last marks of all others: only then has each of them its
// slice. So no device waits for the host's word that another one is done.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/health.h"
#include "trainer/backend/cuda/resident_training.h"
#include "trainer/backend/device_group.h"

namespace trainyard::engine::cuda {

// Of one device of a group, as ResidentTraining takes them.
struct GroupPlace {
  Device& device;
  Health& health;
  const float* loss_scale;
};

class ResidentGroup final : public DeviceGroup {
 public:
  // Two places to MeanOverDevices::kMost.
  static absl::StatusOr<std::unique_ptr<ResidentGroup>> Create(std::span<const GroupPlace> places, const DeviceTrainingOptions& options);
  ~ResidentGroup() override;

  int devices() const override { return static_cast<int>(members_.size()); }
  DeviceTraining& at(int device) override { return *members_[static_cast<size_t>(device)].training; }
  absl::Status BeginStep(int device, const UpdateContext& context, float weight) override;
  absl::Status LeaveOut(int device) override { return members_[static_cast<size_t>(device)].training->LeaveOut(); }
  absl::Status Update(const std::vector<bool>& with_examples, ThreadPool& threads) override;

 private:
  struct Member {
    Device& device;
    Health& health;
    const float* loss_scale;
    std::unique_ptr<ResidentTraining> training{};
    std::unique_ptr<DeviceMemory> addends{};  // this device's slice of each other device; null: it is empty
    std::unique_ptr<Mark> ready{};            // of phase 1
    std::unique_ptr<Mark> summed{};           // of phase 2
    std::unique_ptr<Mark> taken{};            // of phase 3
  };
  // In floats.
  struct Slice {
    int64_t begin = 0;
    int64_t size = 0;
  };

  ResidentGroup() = default;
  absl::Status Open(const DeviceTrainingOptions& options);
  Slice SliceOf(size_t device) const;
  // Calls work(device) for all of them, each on its thread. The first failure of a device.
  absl::Status OnEach(ThreadPool& threads, absl::FunctionRef<void(size_t)> work);
  void Sum(size_t device, const std::vector<bool>& with_examples);
  void Gather(size_t device);

  std::vector<Member> members_;
};

}  // namespace trainyard::engine::cuda
