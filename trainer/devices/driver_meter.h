// A meter by the driver's management library, NVML.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/devices/gpu_meter.h"

namespace trainyard::engine {

// The libraries of the driver, as dlopen(3) finds them.
struct DriverLibraries {
  std::string cuda = "libcuda.so.1";
  std::string nvml = "libnvidia-ml.so.1";
};

// Of these GPUs, numbered as CUDA numbers them: libcuda tells their UUIDs, since NVML knows nothing
// of CUDA_VISIBLE_DEVICES. Unavailable says what is missing or was refused.
absl::StatusOr<std::unique_ptr<GpuMeter>> OpenDriverMeter(const std::vector<int>& gpus, const DriverLibraries& libraries = {});

}  // namespace trainyard::engine
