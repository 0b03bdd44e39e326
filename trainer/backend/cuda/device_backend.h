// The backend over a device: nodes become plans of work, values lie row-major in its memory.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/tensor/precision.h"

namespace trainyard::engine::cuda {

struct DeviceBackendOptions {
  Precision precision = Precision::kFloat32;
  size_t column_bytes = size_t{256} << 20;  // Planner::column_bytes
};

// With a precision of 16 bits operands of products are rounded, and values between convolutions lie
// in memory so (backend/narrow_values.h). A bias is added to what was rounded before, and gradients
// of kernels may be rounded once. Once a call has failed, the backend does no more work: its
// status() says why.
absl::StatusOr<std::unique_ptr<Backend>> MakeDeviceBackend(std::unique_ptr<Device> device, const DeviceBackendOptions& options = {});

}  // namespace trainyard::engine::cuda
