#include "trainer/train/device_updater.h"

#include <utility>
#include <vector>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

std::vector<DeviceParameters*> DevicesOf(DeviceGroup& group) {
  std::vector<DeviceParameters*> devices;
  for (int device = 0; device < group.devices(); ++device) devices.push_back(&group.at(device));
  return devices;
}

}  // namespace

DeviceUpdater::DeviceUpdater(DeviceGroup& group, std::function<absl::StatusOr<TrainingState>()> load)
    : ResidentUpdater(DevicesOf(group), std::move(load)) {}

void DeviceUpdater::Push(int /*key*/, const GradientView& /*gradient*/, int64_t /*step*/) {
  TY_CHECK(false);  // gradients do not leave the devices
}

}  // namespace trainyard::engine
