#include "trainer/model/one_step.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "trainer/base/status_macros.h"
#include "trainer/model/build_graph.h"

namespace trainyard::engine {

absl::StatusOr<ModelSpec> OneStepOf(ModelSpec spec) {
  if (spec.vocabulary == 0 || spec.input_shape.rank() != 1) {
    return absl::InvalidArgumentError(
        fmt::format("model '{}' takes {} of {}", spec.name, spec.vocabulary > 0 ? "tokens" : "numbers", spec.input_shape.ToString()));
  }
  TY_ASSIGN_OR_RETURN(const int classes, ClassCountOf(spec));
  TY_ASSIGN_OR_RETURN(const Shape output, OutputShapeOf(spec));
  if (classes == 0 || output != Shape({spec.input_shape[0], classes})) {
    return absl::InvalidArgumentError(fmt::format("model '{}' does not score a next token for each of its steps", spec.name));
  }
  TY_ASSIGN_OR_RETURN(const std::vector<ParameterSpec> parameters, ParameterSpecsOf(spec));
  for (LayerSpec& layer : spec.layers) {
    const std::string_view why_not = layer.layer->why_not_stepwise();
    if (!why_not.empty()) return absl::InvalidArgumentError(fmt::format("layer \"{}\" {}", layer.name, why_not));
    if (LayerPointer carrying = layer.layer->Carrying()) layer.layer = std::move(carrying);
  }
  spec.input_shape = Shape({1});
  const absl::StatusOr<std::vector<ParameterSpec>> of_one = ParameterSpecsOf(spec);
  if (of_one.ok() && *of_one == parameters) return spec;
  return absl::InvalidArgumentError(fmt::format("model '{}' has a layer that needs all steps at once", spec.name));
}

}  // namespace trainyard::engine
