#include "trainer/commands/inspect.h"

#include <fmt/format.h>

#include <utility>

#include "trainer/backend/executor.h"
#include "trainer/base/status_macros.h"
#include "trainer/job/job_config.h"
#include "trainer/model/build_graph.h"
#include "trainer/ops/describe.h"

namespace trainyard::engine {

absl::StatusOr<std::string> Inspect(const std::string& path, std::span<const std::string> overrides, Backend& backend) {
  TY_ASSIGN_OR_RETURN(const TrainingConfig training, ReadTrainingFile(path, overrides));
  TY_ASSIGN_OR_RETURN(Graph graph, BuildTrainingGraph(training.model, training.batch_size));
  TY_ASSIGN_OR_RETURN(const PlannedGraph planned, Executor::Plan(std::move(graph), backend));
  const bool classes = training.model.loss == Loss::kSoftmaxCrossEntropy;
  const std::string of_each = training.devices > 1 ? fmt::format(" on each of {} devices", training.devices) : "";
  return fmt::format("model {}: input {}, batch {}{}, {}; one training step on the {} backend, fused\n\n{}", training.model.name,
                     training.model.input_shape.ToString(), training.batch_size, of_each,
                     classes ? "softmaxCrossEntropy" : "meanSquaredError", backend.name(), DescribeGraph(planned.graph, planned.plan));
}

}  // namespace trainyard::engine
