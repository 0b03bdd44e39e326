// Failures of CUDA as statuses: the call, then the driver's words.
#pragma once

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string_view>

#include "absl/status/status.h"

namespace trainyard::engine::cuda {

inline absl::Status CudaStatus(cudaError_t error, std::string_view call) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string text = fmt::format("{}: {} ({})", call, cudaGetErrorString(error), cudaGetErrorName(error));
  return error == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(text) : absl::InternalError(text);
}

}  // namespace trainyard::engine::cuda
