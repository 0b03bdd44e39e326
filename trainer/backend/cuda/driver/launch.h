// The one place where work becomes kernels of the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include "trainer/backend/cuda/work.h"

namespace trainyard::engine::cuda {

// Starts work in the stream. Nothing is started where there is nothing to do.
cudaError_t LaunchKernel(const Work& work, cudaStream_t stream);

}  // namespace trainyard::engine::cuda
