// What an executor keeps: its graph's kernels, the places of all values, and where results go.
// executor_state.cc makes it of a graph; executor.cc runs steps with it.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/backend/executor.h"
#include "trainer/tensor/buffer.h"

namespace trainyard::engine {

// A node that runs, with the places of its first input and output in the pointer tables.
struct ExecutorStep {
  NodeId node = 0;
  std::unique_ptr<Kernel> kernel;
  size_t first_input = 0;
  size_t first_output = 0;
  TouchedRows* touched_rows = nullptr;  // during Run
};

// The action for a parameter's result once its node has run.
struct ExecutorFinish {
  NodeId node = 0;
  int key = 0;
  Value value;
  bool in_place = false;     // the kernel wrote it where it belongs
  int by_rows_of_step = -1;  // it also lists the rows: index of its step
};

struct Executor::State {
  State(Graph g, Backend& b, const ExecutorOptions& options)
      : graph(std::move(g)),
        backend(b),
        host_parameters(KernelsUseHostParameters(b)),
        inference(options.inference),
        training(options.training),
        resident(options.training != nullptr ? options.training : options.parameters) {}

  // Once, in this order.
  absl::Status Compile();
  absl::Status Prepare();
  void FindFinishes();
  void PlanValues();
  absl::Status PlaceValues();
  absl::Status MakeRunner();

  // The pointer tables, for a step's places of parameters and results.
  void Bind(const ParameterSet& params, ParameterSet* grads);
  void BindOutside(absl::FunctionRef<void*(int)> parameter, absl::FunctionRef<void*(int)> result);
  void BindToDevice();
  void BindSteps();
  void BindTouchedRows(ParameterSet* grads);

  // A step.
  absl::Status CheckParameters(const ParameterSet& params, const ParameterSet* grads) const;
  absl::Status CheckState(const ParameterSet* state) const;
  void Start(const StepContext& step, const ParameterSet* state);
  void UploadState(const ParameterSet& state);
  void DownloadState(ParameterSet& state);
  void UploadParameters(const ParameterSet& params);
  void RunNode(NodeId node, const StepContext& step);
  absl::Status RunBehind(const StepContext& step, ParameterSet* grads, GradientSink* sink);
  absl::Status RunEach(const StepContext& step, ParameterSet* grads, GradientSink* sink);
  absl::Status FinishResults(NodeId node, ParameterSet* grads, GradientSink* sink);
  void StartTraining(const StepContext& step);
  absl::StatusOr<StepOutcome> TrainBehind(const StepContext& step, ParameterSet* state);
  absl::StatusOr<StepOutcome> TrainEach(const StepContext& step, ParameterSet* state);

  bool IsExternal(Value value) const;
  size_t Bytes() const { return Aligned(plan.arena_bytes) + scratch_bytes; }
  void*& Pointer(Value value) { return pointers[value.node][value.output]; }

  const Graph graph;
  Backend& backend;
  const bool host_parameters;
  const ParameterSet* const inference;  // null: not for inference
  DeviceTraining* const training;       // null: results are the caller's
  DeviceParameters* const resident;     // null: parameters are the caller's
  MemoryPlan plan;
  std::unique_ptr<DeviceMemory> memory;  // the arena, then what kernels need while they run
  size_t scratch_bytes = 0;
  std::vector<ExecutorStep> steps;
  std::vector<ExecutorFinish> finishes;           // by node
  std::vector<std::vector<void*>> pointers;       // [node][output]
  std::vector<const void*> input_pointers;        // of the steps, node by node
  std::vector<void*> output_pointers;             // likewise
  std::vector<const Tensor*> fed;                 // [index into graph.inputs()], during Run
  size_t next_finish = 0;                         // during Run
  std::vector<ExecutorStep>::iterator next_step;  // likewise
  std::unique_ptr<DeviceSteps> runner;            // null: kernels run one by one
  NodeObserver* observer = nullptr;
};

}  // namespace trainyard::engine
