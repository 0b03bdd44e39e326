// Reverse-mode differentiation: backward nodes are added to the graph itself.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/graph/graph.h"

namespace trainyard::engine {

struct GradientOptions {
  // Inputs (f32) whose gradients are wanted too; they become outputs called "gradients/<input>".
  std::vector<std::string> inputs;
};

// Adds nodes that compute d loss / d p for every trainable parameter p on which `loss` (a scalar)
// depends, and a ParameterResult for each. Backward nodes run in the reverse order of the forward
// ones, weights before data, so that the last layer's gradients are ready first. Nothing is
// computed for values that no wanted gradient passes through. Call FuseEpilogues first.
absl::Status AddGradients(Graph& graph, Value loss, const GradientOptions& options = {});

}  // namespace trainyard::engine
