// Convolutions as products: the windows of the images become the rows of a matrix, some samples at
// a time.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/backend/cuda/convolution.h"
#include "trainer/backend/cuda/planned_product.h"

namespace trainyard::engine::cuda {

class ColumnProduct {
 public:
  // The columns take the planner's column_bytes at most, or those of one sample.
  static absl::StatusOr<ColumnProduct> Make(const Planner& planner, const ConvolutionSizes& sizes, ConvolutionPart part, bool bias,
                                            ScratchLayout& scratch);

  // bias (kOutput only) is null unless it was asked for.
  absl::Status Run(const KernelContext& context, const float* x, const float* w, const float* z, float* made,
                   const float* bias = nullptr) const;

 private:
  struct Chunk {
    int64_t first, count;
    PlannedProduct product;
  };

  absl::Status RunChunk(const KernelContext& context, const Chunk& chunk, const float* x, const float* w, const float* z, float* made,
                        const float* bias) const;

  Device* device_ = nullptr;
  ConvolutionSizes sizes_{};
  ConvolutionPart part_ = ConvolutionPart::kOutput;
  ScratchPart<float> columns_;
  std::vector<Chunk> chunks_;
};

}  // namespace trainyard::engine::cuda
