// The backend for NVIDIA GPUs. A build without CUDA links no_cuda.cc in its place.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/tensor/precision.h"

namespace trainyard::engine {

struct CudaOptions {
  int device = 0;  // among those that CUDA_VISIBLE_DEVICES leaves
  Precision precision = Precision::kFloat32;
};

// Unimplemented in a build without CUDA. Unavailable where CudaDeviceCount() is, NotFound where
// there is no such device.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const CudaOptions& options);

// How many devices this process may use: those of the machine or container that
// CUDA_VISIBLE_DEVICES leaves. Starts the driver. Unimplemented in a build without CUDA.
// Unavailable, with what was found and what to do, where there is no driver, no device, or a driver
// that is older than this build needs.
absl::StatusOr<int> CudaDeviceCount();

}  // namespace trainyard::engine
