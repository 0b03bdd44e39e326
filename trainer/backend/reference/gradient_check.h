// Numeric differentiation: the one check that every op's gradient rule and every network's backward
// pass is held to.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/backend/executor.h"
#include "trainer/graph/graph.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// The largest difference found between the backward nodes' gradient and the numeric one.
struct GradientError {
  double difference = 0.0;  // |backward - numeric| / max(1, |numeric|)
  std::string where;        // "parameter 'conv1/kernel', element 7: backward 0.12, numeric 0.13"
};

struct GradientCheckOptions {
  std::vector<std::string> inputs;  // f32 inputs to differentiate by, beside all trainable parameters
  bool fuse = false;                // FuseEpilogues before differentiating
  float step = 1e-3f;               // of the central differences
  Backend* backend = nullptr;       // null: the reference backend in f64
  StepContext context;
};

// `forward` has an output "loss" and no gradients yet. In f64 on the reference backend a right rule
// of smooth ops differs by about step², 1e-6. A backend that computes in f32 takes a larger step.
// `feeds` and `params` are nudged and put back.
absl::StatusOr<GradientError> CheckGradients(const Graph& forward, std::span<const Feed> feeds, ParameterSet& params,
                                             const GradientCheckOptions& options = {});

}  // namespace trainyard::engine
