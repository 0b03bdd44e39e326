// On which processor or GPUs a replica computes: what was asked for, held against what there is.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/devices/device_request.h"
#include "trainer/devices/gpu_environment.h"

namespace trainyard::engine {

// The devices of one replica.
struct WantedDevices {
  DeviceRequest request;
  std::string field = "spec.training.resources.devices";  // that an error names
  int count = 1;                                          // of training.devices
  // Trainers on this machine that come before this one, times `count`: outside of pods, `auto`
  // spreads the trainers of a machine over its GPUs.
  int before = 0;
};

struct DeviceChoice {
  std::vector<int> gpus;  // one a device, numbered as CUDA does; empty: the processor
  std::string reason;     // "this machine has no NVIDIA driver", "1 GPU is visible"
  std::string advice;     // what a person may want to change; "": nothing

  // Each once, in order.
  std::vector<int> DistinctGpus() const;
};

// How many GPUs the driver shows to this process; or why it shows none.
using GpuCount = std::function<absl::StatusOr<int>()>;

// `auto` never fails: whatever speaks against GPUs is the reason to take the processor. Pods use
// GPUs that they were given; what an image says of GPUs gives them none. More devices than GPUs
// share these in turn.
//
// FailedPrecondition where GPUs are asked for that are not there. It names the field, what was
// found, CUDA_VISIBLE_DEVICES where that is set, and what to do. The driver is asked only if
// the answer decides: a process that is to use no GPU never starts it.
absl::StatusOr<DeviceChoice> ChooseDevices(const WantedDevices& wanted, const GpuEnvironment& environment, const GpuCount& ask_driver);

// "cuda:0 and cuda:1", "cpu": for people.
std::string ChosenText(const DeviceChoice& choice);

}  // namespace trainyard::engine
