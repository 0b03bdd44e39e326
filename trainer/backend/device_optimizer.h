// An optimizer that runs where the parameters are, with gradients that come from the host.
#pragma once

#include <span>

#include "absl/status/status.h"
#include "trainer/backend/device_parameters.h"
#include "trainer/optim/optimizer.h"

namespace trainyard::engine {

// An update is: Give for every trainable key, in any order, then Update. An update without a Give
// of every trainable key is no update: its owner leaves it out. Clipping, and the look for values
// that are not finite, are the host's.
class DeviceOptimizer : public DeviceParameters {
 public:
  // Host → device: the gradient of `key`. A parameter that is not trainable has a next value in its
  // place; it stays as it is where none is given. The host's memory may be used again when Give
  // returns. Update tells a failure of Give.
  virtual void Give(int key, std::span<const float> result) = 0;
  // Starts the optimizer, behind all work given so far.
  virtual absl::Status Update(const UpdateContext& context) = 0;
};

}  // namespace trainyard::engine
