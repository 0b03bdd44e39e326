#include "trainer/backend/cuda/driver/cudnn_operation.h"

#include <algorithm>
#include <array>
#include <utility>

namespace trainyard::engine::cuda {
namespace {

// cuDNN names the extents N, C, H, W; the strides say that C lies innermost.
CudnnDescriptor Tensor4d(const CudnnFunctions& f, int64_t id, cudnnDataType_t type, int64_t n, int64_t c, int64_t h, int64_t w) {
  const std::array<int64_t, 4> extents = {n, c, h, w};
  const std::array<int64_t, 4> strides = {c * h * w, 1, w * c, c};
  CudnnDescriptor tensor(f, CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor");
  tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type)
      .Set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::span<const int64_t>(extents))
      .Set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::span<const int64_t>(strides))
      .Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id)
      .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, int64_t{kMostAlignment});
  return std::move(tensor.Finalize());
}

CudnnDescriptor WindowOf(const CudnnFunctions& f, const WindowPlace& window) {
  std::array<int64_t, 2> before{}, after{}, strides{}, dilations = {1, 1};
  for (int axis = 0; axis < 2; ++axis) {
    strides[axis] = window.stride[axis];
    before[axis] = window.pad[axis];
    // So far that the last window fits; a valid window may leave input over, which needs none.
    const int64_t end = int64_t{window.out[axis] - 1} * window.stride[axis] + window.size[axis];
    after[axis] = std::max<int64_t>(0, end - window.in[axis] - window.pad[axis]);
  }
  CudnnDescriptor convolution(f, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, "a convolution");
  convolution.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
      .Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2})
      .Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, std::span<const int64_t>(before))
      .Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, std::span<const int64_t>(after))
      .Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, std::span<const int64_t>(dilations))
      .Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, std::span<const int64_t>(strides));
  return std::move(convolution.Finalize());
}

// The names of one operation's attributes.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t window, x, w, z, alpha, beta;
};

OperationNames NamesOf(ConvolutionPart part) {
  switch (part) {
    case ConvolutionPart::kOutput:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvolutionPart::kInputGradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvolutionPart::kWeightGradient:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

cudnnDataType_t TypeOf(const ConvolutionShape& shape, ConvolutionPart part) {
  const Element element = shape.part == part ? shape.makes : shape.takes;
  if (element == Element::kBfloat16) return CUDNN_DATA_BFLOAT16;
  return element == Element::kFloat16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

}  // namespace

CudnnOperation::CudnnOperation(const CudnnFunctions& f, const ConvolutionShape& shape)
    : x(Tensor4d(f, kX, TypeOf(shape, ConvolutionPart::kInputGradient), shape.sizes.samples, shape.sizes.window.channels,
                 shape.sizes.window.in[0], shape.sizes.window.in[1])),
      w(Tensor4d(f, kW, TypeOf(shape, ConvolutionPart::kWeightGradient), shape.sizes.filters, shape.sizes.window.channels,
                 shape.sizes.window.size[0], shape.sizes.window.size[1])),
      z(Tensor4d(f, kZ, TypeOf(shape, ConvolutionPart::kOutput), shape.sizes.samples, shape.sizes.filters, shape.sizes.window.out[0],
                 shape.sizes.window.out[1])),
      window(WindowOf(f, shape.sizes.window)),
      operation(f, NamesOf(shape.part).type, "a convolution's operation") {
  const OperationNames names = NamesOf(shape.part);
  operation.Set(names.window, window)
      .Set(names.x, x)
      .Set(names.w, w)
      .Set(names.z, z)
      .Set(names.alpha, CUDNN_TYPE_FLOAT, 1.0f)
      .Set(names.beta, CUDNN_TYPE_FLOAT, 0.0f)
      .Finalize();
}

}  // namespace trainyard::engine::cuda
