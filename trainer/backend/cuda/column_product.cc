#include "trainer/backend/cuda/column_product.h"

#include <algorithm>

#include "trainer/base/status_macros.h"

namespace trainyard::engine::cuda {
namespace {

// Of `rows` windows. The first chunk of a weight gradient is stored, the others are added to it.
ProductShape ShapeOf(const ConvolutionSizes& sizes, ConvolutionPart part, int64_t rows, bool bias, bool first) {
  const int64_t depth = sizes.depth();
  const int64_t filters = sizes.filters;
  switch (part) {
    case ConvolutionPart::kOutput:
      return {.m = rows, .n = filters, .k = depth, .a = {depth}, .b = {filters}, .c_stride = filters, .bias = bias};
    case ConvolutionPart::kInputGradient:
      return {.m = rows, .n = depth, .k = filters, .a = {filters}, .b = {filters, /*transposed=*/true}, .c_stride = depth};
    case ConvolutionPart::kWeightGradient:
      return {.m = depth, .n = filters, .k = rows, .a = {depth, /*transposed=*/true}, .b = {filters}, .c_stride = filters, .onto = !first};
  }
  return {};
}

}  // namespace

bool ConvolutionSizes::pointwise() const {
  const bool point = window.size[0] == 1 && window.size[1] == 1;
  return point && window.stride[0] == 1 && window.stride[1] == 1;
}

absl::StatusOr<ColumnProduct> ColumnProduct::Make(const Planner& planner, const ConvolutionSizes& sizes, ConvolutionPart part, bool bias,
                                                  ScratchLayout& scratch) {
  ColumnProduct made;
  made.device_ = &planner.device;
  made.sizes_ = sizes;
  made.part_ = part;
  const int64_t of_a_sample = sizes.out_pixels() * sizes.depth();
  int64_t at_once = sizes.samples;
  if (!sizes.pointwise()) {
    const auto most = static_cast<int64_t>(planner.column_bytes / sizeof(float)) / of_a_sample;
    at_once = std::clamp<int64_t>(most, 1, sizes.samples);
    made.columns_ = scratch.Add<float>(at_once * of_a_sample);
  }
  // Chunks run one after the other, so their rounded operands may share a place.
  const ScratchLayout before = scratch;
  for (int64_t first = 0; first < sizes.samples; first += at_once) {
    const int64_t count = std::min(at_once, sizes.samples - first);
    ScratchLayout mine = before;
    ProductShape shape = ShapeOf(sizes, part, count * sizes.out_pixels(), bias, first == 0);
    shape.alignment = std::min(AlignmentBehind(first * sizes.in_pixels() * sizes.window.channels),
                               AlignmentBehind(first * sizes.out_pixels() * sizes.filters));
    TY_ASSIGN_OR_RETURN(const PlannedProduct product, PlannedProduct::Make(planner, shape, mine));
    made.chunks_.push_back({first, count, product});
    if (mine.bytes() > scratch.bytes()) scratch = mine;
  }
  return made;
}

absl::Status ColumnProduct::Run(const KernelContext& context, const float* x, const float* w, const float* z, float* made,
                                const float* bias) const {
  for (const Chunk& chunk : chunks_) TY_RETURN_IF_ERROR(RunChunk(context, chunk, x, w, z, made, bias));
  return absl::OkStatus();
}

absl::Status ColumnProduct::RunChunk(const KernelContext& context, const Chunk& chunk, const float* x, const float* w, const float* z,
                                     float* made, const float* bias) const {
  const int64_t at_x = chunk.first * sizes_.in_pixels() * sizes_.window.channels;
  const int64_t at_z = chunk.first * sizes_.out_pixels() * sizes_.filters;
  float* const columns = columns_.In(context);
  if (part_ == ConvolutionPart::kInputGradient) {
    float* const dx = made + at_x;
    TY_RETURN_IF_ERROR(chunk.product.Run(context, z + at_z, w, columns == nullptr ? dx : columns));
    if (columns == nullptr) return absl::OkStatus();
    return device_->Launch(
        Each<ColumnsToImage<float>>{{columns, dx, sizes_.window}, chunk.count * sizes_.in_pixels() * sizes_.window.channels});
  }
  const float* rows = x + at_x;
  if (columns != nullptr) {
    TY_RETURN_IF_ERROR(
        device_->Launch(Each<ImageToColumns<float>>{{rows, columns, sizes_.window}, chunk.count * sizes_.out_pixels() * sizes_.depth()}));
    rows = columns;
  }
  if (part_ == ConvolutionPart::kOutput) return chunk.product.Run(context, rows, w, made + at_z, bias);
  return chunk.product.Run(context, rows, z + at_z, made);
}

}  // namespace trainyard::engine::cuda
