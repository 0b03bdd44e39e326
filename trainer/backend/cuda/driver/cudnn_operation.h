// A convolution in the words of cuDNN: three tensors, a window, and the operation on them.
#pragma once

#include "trainer/backend/cuda/convolution.h"
#include "trainer/backend/cuda/driver/cudnn_descriptor.h"

namespace trainyard::engine::cuda {

struct CudnnOperation {
  static constexpr int64_t kX = 1, kW = 2, kZ = 3;  // the tensors' unique ids

  CudnnOperation(const CudnnFunctions& functions, const ConvolutionShape& shape);

  CudnnDescriptor x, w, z, window, operation;  // operation.status() tells of all
};

}  // namespace trainyard::engine::cuda
