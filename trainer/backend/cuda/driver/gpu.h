// A GPU as a device of the backend: one stream of work, one of copies, memory of its own. A step
// that is recorded becomes a CUDA graph.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "trainer/backend/cuda/device.h"

namespace trainyard::engine::cuda {

// `index` counts the devices that this process sees; it must be one of them.
absl::StatusOr<std::unique_ptr<Device>> MakeGpu(int index);

}  // namespace trainyard::engine::cuda
