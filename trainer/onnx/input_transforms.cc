#include "trainer/onnx/input_transforms.h"

#include <optional>
#include <utility>
#include <variant>

#include "trainer/base/status_macros.h"
#include "trainer/tensor/pixel_scale.h"

namespace trainyard::engine {

absl::StatusOr<InputTransforms> InputTransformsOf(const PipelineConfig& transforms, DType taken, const Shape& example_shape) {
  InputTransforms result{.taken = taken, .steps = {}};
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
