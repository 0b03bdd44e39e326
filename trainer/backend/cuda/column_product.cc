#include "trainer/backend/cuda/column_product.h"

#include <algorithm>
#include <cstddef>

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

absl::StatusOr<ColumnProduct> ColumnProduct::Make(const Planner& planner, const ConvolutionSizes& sizes, ConvolutionPart part,
                                                  const NarrowImages& narrow, bool bias, ScratchLayout& scratch) {
  ColumnProduct made;
  made.device_ = &planner.device;
  made.sizes_ = sizes;
  made.part_ = part;
  made.x_ = planner.ElementOf(narrow.x);
  made.z_ = planner.ElementOf(narrow.z);
  const bool forward = part == ConvolutionPart::kOutput;
  const bool back = part == ConvolutionPart::kInputGradient;
  const int64_t of_a_sample = sizes.out_pixels() * sizes.depth();
  int64_t at_once = sizes.samples;
  if (!sizes.pointwise()) {
    const auto most = static_cast<int64_t>(planner.column_bytes / sizeof(float)) / of_a_sample;
    at_once = std::clamp<int64_t>(most, 1, sizes.samples);
    made.columns_ = scratch.AddBytes<void>(at_once * of_a_sample * BytesOfElement(planner.ElementOf(narrow.x && !back)));
  }
  // Columns of a gradient are added up before they are rounded.
  const bool narrow_dx = narrow.x && sizes.pointwise();
  const NarrowOperands operands = forward ? NarrowOperands{narrow.x, false, narrow.z}
                                  : back  ? NarrowOperands{narrow.z, false, narrow_dx}
                                          : NarrowOperands{narrow.x, narrow.z, false};
  // Chunks run one after the other, so their rounded operands may share a place.
  const ScratchLayout before = scratch;
  for (int64_t first = 0; first < sizes.samples; first += at_once) {
    const int64_t count = std::min(at_once, sizes.samples - first);
    ScratchLayout mine = before;
    ProductShape shape = ShapeOf(sizes, part, count * sizes.out_pixels(), bias, first == 0);
    shape.alignment = std::min(AlignmentBehind(made.BytesBehindX(first)), AlignmentBehind(made.BytesBehindZ(first)));
    TY_ASSIGN_OR_RETURN(const PlannedProduct product, PlannedProduct::Make(planner, shape, mine, operands));
    made.chunks_.push_back({first, count, product});
    if (mine.bytes() > scratch.bytes()) scratch = mine;
  }
  return made;
}

int64_t ColumnProduct::BytesBehindX(int64_t samples) const {
  return samples * sizes_.in_pixels() * sizes_.window.channels * BytesOfElement(x_);
}
int64_t ColumnProduct::BytesBehindZ(int64_t samples) const { return samples * sizes_.out_pixels() * sizes_.filters * BytesOfElement(z_); }

absl::Status ColumnProduct::Run(const KernelContext& context, const void* x, const float* w, const void* z, void* made,
                                const float* bias) const {
  for (const Chunk& chunk : chunks_) TY_RETURN_IF_ERROR(RunChunk(context, chunk, x, w, z, made, bias));
  return absl::OkStatus();
}

absl::Status ColumnProduct::RunChunk(const KernelContext& context, const Chunk& chunk, const void* x, const float* w, const void* z,
                                     void* made, const float* bias) const {
  const int64_t at_x = BytesBehindX(chunk.first);
  const int64_t at_z = BytesBehindZ(chunk.first);
  void* const columns = columns_.In(context);
  if (part_ == ConvolutionPart::kInputGradient) {
    void* const dx = static_cast<std::byte*>(made) + at_x;
    const void* const dz = static_cast<const std::byte*>(z) + at_z;
    TY_RETURN_IF_ERROR(chunk.product.Run(context, dz, w, columns == nullptr ? dx : columns));
    if (columns == nullptr) return absl::OkStatus();
    return FromColumns(static_cast<const float*>(columns), dx, chunk.count * sizes_.in_pixels() * sizes_.window.channels);
  }
  const void* rows = static_cast<const std::byte*>(x) + at_x;
  if (columns != nullptr) {
    TY_RETURN_IF_ERROR(ToColumns(rows, columns, chunk.count * sizes_.out_pixels() * sizes_.depth()));
    rows = columns;
  }
  if (part_ == ConvolutionPart::kOutput) return chunk.product.Run(context, rows, w, static_cast<std::byte*>(made) + at_z, bias);
  return chunk.product.Run(context, rows, static_cast<const std::byte*>(z) + at_z, made);
}

absl::Status ColumnProduct::ToColumns(const void* x, void* columns, int64_t elements) const {
  return WithElement(x_, [&]<typename T>() {
    return device_->Launch(Each<ImageToColumns<T>>{{static_cast<const T*>(x), static_cast<T*>(columns), sizes_.window}, elements});
  });
}

absl::Status ColumnProduct::FromColumns(const float* columns, void* x, int64_t elements) const {
  return WithElement(
      x_, [&]<typename T>() { return device_->Launch(Each<ColumnsToImage<T>>{{columns, static_cast<T*>(x), sizes_.window}, elements}); });
}

}  // namespace trainyard::engine::cuda
