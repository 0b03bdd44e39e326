// The backends by name, on the devices of this machine. main links the file that knows them all.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/devices/choose_devices.h"
#include "trainer/tensor/precision.h"

namespace trainyard::engine {

// On what a process computes.
struct BackendPlan {
  bool reference = false;  // else the cpu backend, or the cuda backend on the chosen GPUs
  DeviceChoice devices;
};

// `name`: "reference", what ParseDeviceRequest takes, or "" for what `wanted` requests. Errors:
// those of both, for another name with --backend in front.
absl::StatusOr<BackendPlan> PlanBackends(std::string_view name, WantedDevices wanted);

// The backend of all devices in turn: the cpu's with `threads` compute threads (0: the cgroup's
// quota), or that of the first GPU.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const BackendPlan& plan, int threads, Precision precision = Precision::kFloat32);
// The same of a name, for one device.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(std::string_view name, int threads, Precision precision = Precision::kFloat32);

// One for each of `devices` devices. They divide the threads of the cpu: each has at least one, and
// at most one more than another.
absl::StatusOr<std::vector<std::unique_ptr<Backend>>> MakeDeviceBackends(const BackendPlan& plan, int threads, int devices,
                                                                         Precision precision);

}  // namespace trainyard::engine
