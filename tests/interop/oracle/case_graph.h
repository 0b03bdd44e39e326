// The graphs of torch_oracle_test.py.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "trainer/graph/graph.h"

namespace trainyard::engine {

// The graph of one case: {nodes: [{name, op, inputs, …}], outputs, loss, next: {parameter: value}}.
// Inputs and all other references are "node" or "node:output". An `inference` graph lacks the nodes
// that are marked as training's, the loss, and what a step leaves for parameters.
absl::StatusOr<Graph> BuildCaseGraph(const nlohmann::json& one, bool inference);

}  // namespace trainyard::engine
