// Runs a graph on a backend, step after step, in one arena, without a heap allocation per step.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/device_parameters.h"
#include "trainer/backend/device_training.h"
#include "trainer/backend/feed_check.h"
#include "trainer/graph/graph.h"
#include "trainer/graph/memory_plan.h"
#include "trainer/ops/gradient.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// Told when a parameter's result is complete, while the rest of the backward pass still runs:
// communication starts here.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  // grads.values(key) is final for this step. Called on the thread of Run, once a key, as soon as
  // the node that computes it has run.
  virtual void Ready(int key) = 0;
};

// Told before and after every node that has a kernel: profiler, bench, trace. On a device that
// works behind the caller: before and after it is started. Called on the thread of Run; must not
// allocate if steps may not.
class NodeObserver {
 public:
  virtual ~NodeObserver() = default;
  virtual void BeforeNode(NodeId node) = 0;
  virtual void AfterNode(NodeId node) = 0;
};

struct ExecutorOptions {
  bool fuse = true;
  GradientOptions gradients;  // of a graph with a loss
  // Inference: the graph has no results and is run with these parameters and StepContext::training
  // false only. They outlive the executor and keep their values. The backend may keep what it makes
  // of them, and do without what only training needs: numbers may differ in their last bits.
  const ParameterSet* inference = nullptr;
  // Of a graph with a loss, one of both at most; it outlives the executor. Parameters are there, so
  // that Run does not read the host's.
  DeviceParameters* parameters = nullptr;
  // Parameters and results are there, and Train runs the steps.
  DeviceTraining* training = nullptr;
};

// A graph that could run, and the places of its values.
struct PlannedGraph {
  Graph graph;  // rewritten, with its backward nodes
  MemoryPlan plan;
};

// For one exact batch size. Not thread-safe. Run allocates nothing after Create, but for the lists
// of rows that a set of gradients gets in its first Run.
class Executor {
 public:
  // Takes a forward graph and lets the backend rewrite it. Adds the backward nodes if it has a
  // loss, compiles every node and plans memory. Errors: a parameter without influence on the loss,
  // an op that the backend lacks, memory.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(Graph forward, Backend& backend, const ExecutorOptions& options = {});
  ~Executor();
  // What Create would run, without its memory: of a batch of any size. Errors of Create.
  static absl::StatusOr<PlannedGraph> Plan(Graph forward, Backend& backend);

  // One step. `params` holds values for graph.parameters(). Gradients (row-major) and next values
  // of state go to `grads`; null only if the graph has no results. `sink` may be null.
  // InvalidArgument names the feed that is missing, unknown, of wrong shape or type, or holds an
  // integer out of range. Nothing has run then. A device's failure (Backend::status) ends the step:
  // results that `sink` was told of are right, all others are not. `state` holds values for
  // graph.states(), which the step reads and then replaces. It may be null only if the graph has
  // none.
  absl::Status Run(const StepContext& step, std::span<const Feed> feeds, const ParameterSet& params, ParameterSet* grads,
                   GradientSink* sink, ParameterSet* state = nullptr);

  // With options.training, whose BeginStep was called: one step and the update behind it. Waits for
  // its outcome. Errors and `state` as of Run.
  absl::StatusOr<StepOutcome> Train(const StepContext& step, std::span<const Feed> feeds, ParameterSet* state = nullptr);

  // After a Run: a named output of one element (NotFound, InvalidArgument otherwise).
  absl::StatusOr<double> Scalar(std::string_view output) const;
  // After a Run: a named output into `host`, row-major, of the output's shape and dtype (f32
  // outputs also as f64).
  absl::Status Fetch(std::string_view output, const Tensor& host) const;
  // After a Run: a named output of f32 where it lies, until the next Run. Empty where it must be
  // fetched.
  std::span<const float> View(std::string_view output) const;

  // Null to stop observing.
  void set_observer(NodeObserver* observer);
  // The graph that runs: rewritten, with its backward nodes.
  const Graph& graph() const;
  const MemoryPlan& plan() const;
  // Parameters whose gradients list the rows that differ from zero, whatever the batch.
  std::vector<int> row_keys() const;
  // Arena plus scratch.
  size_t bytes() const;

 private:
  struct State;
  explicit Executor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace trainyard::engine
