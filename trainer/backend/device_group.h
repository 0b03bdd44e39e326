// A training on one or several devices of one process, where parameters and optimizer slots stay.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/device_training.h"
#include "trainer/base/thread_pool.h"

namespace trainyard::engine {

// Each device has all parameters and slots, the same bits as the others. A step is, in this order:
//   1. on each device, each on its own thread: BeginStep; with examples, Executor::Train with its
//      DeviceTraining; where the share must change nothing, LeaveOut.
//   2. Update, on the thread of the step loop, when all devices have done that.
// A step without Update changes no parameter where there are several devices: so it is left out
// where a device has an overflow. One device updates in Executor::Train. After a failure no step
// may follow. The backends outlive it.
class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;
  virtual int devices() const = 0;
  virtual DeviceTraining& at(int device) = 0;

  // In place of DeviceTraining::BeginStep. `weight` multiplies the device's gradients, so that the
  // mean over the devices is the mean over all examples of the step.
  virtual absl::Status BeginStep(int device, const UpdateContext& context, float weight) = 0;
  // After a Train whose outcome is kNotFinite: the gradients of this share become 0, its next
  // values those that the parameters have.
  virtual absl::Status LeaveOut(int device) = 0;
  // Sums the results of the devices `with_examples` in the tree order (docs/collectives.md).
  // Divides gradients by the number of devices, and next values by the number of those devices.
  // Then all devices run the optimizer. `threads` has one for each device. Returns the first
  // failure of a device; no device waits for one that has failed.
  virtual absl::Status Update(const std::vector<bool>& with_examples, ThreadPool& threads) = 0;
};

// On the devices of all `backends`. Null: they are of a kind that trains with the host's
// parameters, or too many.
absl::StatusOr<std::unique_ptr<DeviceGroup>> OpenDeviceGroup(std::span<Backend* const> backends, const DeviceTrainingOptions& options);

}  // namespace trainyard::engine
