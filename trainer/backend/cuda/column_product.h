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
  // The columns take the planner's column_bytes at most, or those of one sample. Narrow outputs
  // take no bias.
  static absl::StatusOr<ColumnProduct> Make(const Planner& planner, const ConvolutionSizes& sizes, ConvolutionPart part,
                                            const NarrowImages& narrow, bool bias, ScratchLayout& scratch);

  // bias (kOutput only) is null unless it was asked for.
  absl::Status Run(const KernelContext& context, const void* x, const float* w, const void* z, void* made,
                   const float* bias = nullptr) const;

 private:
  struct Chunk {
    int64_t first, count;
    PlannedProduct product;
  };

  int64_t BytesBehindX(int64_t samples) const;
  int64_t BytesBehindZ(int64_t samples) const;
  absl::Status RunChunk(const KernelContext& context, const Chunk& chunk, const void* x, const float* w, const void* z, void* made,
                        const float* bias) const;
  absl::Status ToColumns(const void* x, void* columns, int64_t elements) const;
  absl::Status FromColumns(const float* columns, void* x, int64_t elements) const;

  Device* device_ = nullptr;
  ConvolutionSizes sizes_{};
  ConvolutionPart part_ = ConvolutionPart::kOutput;
  Element x_ = Element::kFloat32, z_ = Element::kFloat32;  // of the images
  ScratchPart<void> columns_;                              // as x is held; the gradient's are f32
  std::vector<Chunk> chunks_;
};

}  // namespace trainyard::engine::cuda
