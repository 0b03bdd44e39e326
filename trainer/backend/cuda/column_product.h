// Convolutions as products: the windows of the images become the rows of a matrix, some samples at
// a time.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/backend/cuda/planned_product.h"
#include "trainer/backend/cuda/window_bodies.h"

namespace trainyard::engine::cuda {

// x [samples, in, C], w [size, C, D], z [samples, out, D]
struct ConvolutionSizes {
  int64_t samples;
  WindowPlace window;  // with C
  int64_t filters;     // D

  int64_t in_pixels() const { return int64_t{window.in[0]} * window.in[1]; }
  int64_t out_pixels() const { return int64_t{window.out[0]} * window.out[1]; }
  // Of the matrix that w is.
  int64_t depth() const { return int64_t{window.size[0]} * window.size[1] * window.channels; }
  int64_t z_elements() const { return samples * out_pixels() * filters; }
  // The rows are x itself.
  bool pointwise() const;
};

// Which of x, w, z the product makes; the other two go in.
enum class ConvolutionPart : uint8_t { kOutput, kInputGradient, kWeightGradient };

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
