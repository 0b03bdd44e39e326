#include "trainer/onnx/input_transforms.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "trainer/base/status_macros.h"
#include "trainer/tensor/pixel_scale.h"

namespace trainyard::engine {
namespace {

constexpr float kNothing = std::numeric_limits<float>::quiet_NaN();

// (x - mean) / std in two steps. The first takes away the float next to the mean, the second what
// is left of the mean. So no digits are lost where the mean is large beside the deviation.
absl::Status AddColumns(std::span<const FittedColumn> columns, InputTransforms& result) {
  if (result.taken != DType::kF32) {
    return absl::InvalidArgumentError(
        "--with-transforms: found uint8, expected float32: the model has columns of csv, whose numbers are not bytes");
  }
  Normalization near{.factor = {1}, .offset = {}};
  Normalization rest;
  bool fills = false;
  for (const FittedColumn& column : columns) {
    const auto width = static_cast<size_t>(column.width());
    const bool number = column.type == ColumnType::kNumber;
    const float mean = number ? static_cast<float>(column.mean) : 0;
    const double deviation = number ? column.deviation : 1;
    const double left = number ? (column.mean - static_cast<double>(mean)) / deviation : 0;
    near.offset.resize(near.offset.size() + width, -mean);
    rest.factor.resize(rest.factor.size() + width, static_cast<float>(1 / deviation));
    rest.offset.resize(rest.offset.size() + width, static_cast<float>(-left));
    if (!std::isfinite(mean) || !std::isfinite(rest.factor.back()) || !std::isfinite(rest.offset.back())) {
      return absl::InvalidArgumentError(
          fmt::format("--with-transforms: column \"{}\" has the mean {} and the std {}, expected numbers that float32 holds; leave "
                      "--with-transforms out",
                      column.column.name, column.mean, column.deviation));
    }
    float missing = kNothing;
    fills = (number && column.missing && absl::SimpleAtof(*column.missing, &missing)) || fills;
    result.missing.resize(result.missing.size() + width, missing);
  }
  if (!fills) result.missing.clear();
  result.steps = {std::move(near), std::move(rest)};
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<InputTransforms> InputTransformsOf(const PipelineConfig& transforms, DType taken, const Shape& example_shape,
                                                  std::span<const FittedColumn> columns) {
  InputTransforms result{.taken = taken, .missing = {}, .steps = {}};
  if (!columns.empty()) TY_RETURN_IF_ERROR(AddColumns(columns, result));
  float scale = taken == DType::kU8 ? kPixelScale : 1.0F;
  for (const ExampleStage& stage : transforms.examples) {
    TY_ASSIGN_OR_RETURN(std::optional<Normalization> step, NormalizationOf(std::get<MapConfig>(stage).normalize, scale, example_shape));
    if (!step) continue;  // bytes stay bytes
    result.steps.push_back(*std::move(step));
    scale = 1.0F;
  }
  if (scale != 1.0F) result.steps.push_back({.factor = {scale}, .offset = {0.0F}});
  return result;
}

}  // namespace trainyard::engine
