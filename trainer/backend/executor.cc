#include "trainer/backend/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "trainer/backend/executor_state.h"
#include "trainer/backend/feed_check.h"
#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {

absl::Status Executor::State::CheckParameters(const ParameterSet& params, const ParameterSet* grads) const {
  const auto same = [&](const ParameterSet& set) { return std::ranges::equal(set.specs(), graph.parameters()); };
  if (!same(params)) return absl::InvalidArgumentError("parameters given to the executor are not those of its graph");
  if (grads == nullptr && !graph.results().empty()) {
    return absl::InvalidArgumentError("the graph computes gradients, but none can be stored: no gradient set was given");
  }
  if (grads != nullptr && !same(*grads)) return absl::InvalidArgumentError("gradients given to the executor are not those of its graph");
  return absl::OkStatus();
}

absl::Status Executor::State::CheckState(const ParameterSet* state) const {
  if (graph.states().empty()) return absl::OkStatus();
  if (state == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("the graph has {} states ('{}' …), but no values of them were given", graph.states().size(), graph.states()[0].name));
  }
  if (!std::ranges::equal(state->specs(), graph.states())) {
    return absl::InvalidArgumentError(
        fmt::format("the state given to the executor is not its graph's: '{}' has shape {} there; a state belongs to one batch size",
                    graph.states()[0].name, graph.states()[0].shape.ToString()));
  }
  return absl::OkStatus();
}

// The step's number, its batch and what layers carry are uploaded.
void Executor::State::Start(const StepContext& step, const ParameterSet* state) {
  backend.BeginStep(step);
  for (size_t i = 0; i < fed.size(); ++i) {
    const NodeId input = graph.inputs()[i];
    const Node& node = graph.node(input);
    backend.Upload(node.outputs[0], std::get<InputOp>(node.op).u8_scale, *fed[i], pointers[input][0]);
  }
  if (!graph.states().empty()) UploadState(*state);
}

void Executor::State::UploadState(const ParameterSet& state) {
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const auto* op = std::get_if<StateOp>(&graph.node(id).op);
    if (op == nullptr) continue;
    const ValueSpec& spec = graph.node(id).outputs[0];
    backend.Upload(spec, 1.0f, {DType::kF32, spec.shape, const_cast<float*>(state.values(op->index).data())}, pointers[id][0]);
  }
}

void Executor::State::DownloadState(ParameterSet& state) {
  for (int i = 0; i < static_cast<int>(graph.states().size()); ++i) {
    const Value next = graph.next_states()[i];
    if (!next.valid()) continue;
    const ValueSpec& spec = graph.spec(next);
    backend.Download(spec, Pointer(next), {DType::kF32, spec.shape, state.values(i).data()});
  }
}

void Executor::State::UploadParameters(const ParameterSet& params) {
  if (host_parameters || resident != nullptr) return;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const auto* op = std::get_if<ParameterOp>(&graph.node(id).op);
    if (op == nullptr) continue;
    const ValueSpec& spec = graph.node(id).outputs[0];
    backend.Upload(spec, 1.0f, {DType::kF32, spec.shape, const_cast<float*>(params.values(op->key).data())}, pointers[id][0]);
  }
}

// Hands over the results that `node` was the last to work on. Called for every node in order.
absl::Status Executor::State::FinishResults(NodeId node, ParameterSet* grads, GradientSink* sink) {
  for (; next_finish < finishes.size() && finishes[next_finish].node == node; ++next_finish) {
    const ExecutorFinish& finish = finishes[next_finish];
    const ValueSpec& spec = graph.spec(finish.value);
    if (!finish.in_place) {
      backend.Download(spec, Pointer(finish.value), {DType::kF32, spec.shape, grads->values(finish.key).data()});
      TY_RETURN_IF_ERROR(backend.status());
    }
    if (sink != nullptr) sink->Ready(finish.key);
  }
  return absl::OkStatus();
}

// Runs the node's kernel, if it has one. Called for every node in order.
void Executor::State::RunNode(NodeId id, const StepContext& step) {
  if (next_step == steps.end() || next_step->node != id) return;
  const Node& node = graph.node(id);
  if (observer != nullptr) observer->BeforeNode(id);
  next_step->kernel->Run({.inputs = {input_pointers.data() + next_step->first_input, node.inputs.size()},
                          .outputs = {output_pointers.data() + next_step->first_output, node.outputs.size()},
                          .scratch = memory->data() + Aligned(plan.arena_bytes),
                          .touched_rows = next_step->touched_rows,
                          .step = step});
  if (observer != nullptr) observer->AfterNode(id);
  ++next_step;
}

// All kernels and copies are started before the first result is waited for.
absl::Status Executor::State::RunBehind(const StepContext& step, ParameterSet* grads, GradientSink* sink) {
  runner->Run(step, [&] {
    next_step = steps.begin();
    next_finish = 0;
    for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
      RunNode(id, step);
      for (; next_finish < finishes.size() && finishes[next_finish].node == id; ++next_finish) {
        runner->StartDownload(static_cast<int>(next_finish));
      }
    }
  });
  for (size_t i = 0; i < finishes.size(); ++i) {
    const int key = finishes[i].key;
    runner->FinishDownload(static_cast<int>(i), {DType::kF32, graph.spec(finishes[i].value).shape, grads->values(key).data()});
    TY_RETURN_IF_ERROR(backend.status());
    if (sink != nullptr) sink->Ready(key);
  }
  return absl::OkStatus();
}

// A step's results stay where they are, and the update follows them. Only the outcome and the
// layers' state come to the host.
absl::StatusOr<StepOutcome> Executor::State::TrainBehind(const StepContext& step, ParameterSet* state) {
  runner->Run(step, [&] {
    StartTraining(step);
    const int downloads = 1 + static_cast<int>(std::ranges::count_if(graph.next_states(), &Value::valid));
    for (int i = 0; i < downloads; ++i) runner->StartDownload(i);
  });
  std::array<float, DeviceTraining::kOutcomeFloats> outcome{};
  int result = 0;
  runner->FinishDownload(result++, {DType::kF32, {DeviceTraining::kOutcomeFloats}, outcome.data()});
  for (int i = 0; i < static_cast<int>(graph.states().size()); ++i) {
    const Value next = graph.next_states()[i];
    if (next.valid()) runner->FinishDownload(result++, {DType::kF32, graph.spec(next).shape, state->values(i).data()});
  }
  TY_RETURN_IF_ERROR(backend.status());
  return DeviceTraining::OutcomeOf(outcome);
}

// The same for an observer, or where the device cannot work behind the caller.
absl::StatusOr<StepOutcome> Executor::State::TrainEach(const StepContext& step, ParameterSet* state) {
  StartTraining(step);
  if (!graph.states().empty()) DownloadState(*state);
  std::array<float, DeviceTraining::kOutcomeFloats> outcome{};
  const ValueSpec spec{.shape = {DeviceTraining::kOutcomeFloats}};
  backend.Download(spec, training->outcome(), {DType::kF32, spec.shape, outcome.data()});
  TY_RETURN_IF_ERROR(backend.status());
  return DeviceTraining::OutcomeOf(outcome);
}

// All kernels of a step, and the update behind them.
void Executor::State::StartTraining(const StepContext& step) {
  next_step = steps.begin();
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) RunNode(id, step);
  for (const ExecutorFinish& finish : finishes) {
    if (!finish.in_place) training->Take(finish.key, Pointer(finish.value));
  }
  training->Update(Pointer(graph.loss()));
}

absl::Status Executor::State::RunEach(const StepContext& step, ParameterSet* grads, GradientSink* sink) {
  next_step = steps.begin();
  next_finish = 0;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    RunNode(id, step);
    TY_RETURN_IF_ERROR(FinishResults(id, grads, sink));
  }
  return absl::OkStatus();
}

Executor::Executor(std::unique_ptr<State> state) : state_(std::move(state)) {}
Executor::~Executor() = default;

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(Graph forward, Backend& backend, const ExecutorOptions& options) {
  TY_CHECK(options.parameters == nullptr || (options.training == nullptr && !KernelsUseHostParameters(backend)));
  TY_CHECK(options.inference == nullptr || (!forward.loss().valid() && forward.results().empty()));
  Graph graph = backend.Rewrite(forward, {.fuse = options.fuse, .inference = options.inference != nullptr});
  if (graph.loss().valid()) TY_RETURN_IF_ERROR(AddGradients(graph, graph.loss(), options.gradients));
  auto state = std::make_unique<State>(std::move(graph), backend, options);
  TY_RETURN_IF_ERROR(state->Compile());
  TY_RETURN_IF_ERROR(state->Prepare());
  state->FindFinishes();
  state->PlanValues();
  TY_RETURN_IF_ERROR(state->PlaceValues());
  state->BindToDevice();
  TY_RETURN_IF_ERROR(state->MakeRunner());
  return std::unique_ptr<Executor>(new Executor(std::move(state)));
}

absl::StatusOr<PlannedGraph> Executor::Plan(Graph forward, Backend& backend) {
  Graph graph = backend.Rewrite(forward, {});
  if (graph.loss().valid()) TY_RETURN_IF_ERROR(AddGradients(graph, graph.loss(), {}));
  State state(std::move(graph), backend, {});
  TY_RETURN_IF_ERROR(state.Compile());
  state.FindFinishes();
  state.PlanValues();
  return PlannedGraph{.graph = state.graph, .plan = std::move(state.plan)};
}

absl::Status Executor::Run(const StepContext& step, std::span<const Feed> feeds, const ParameterSet& params, ParameterSet* grads,
                           GradientSink* sink, ParameterSet* state) {
  State& s = *state_;
  TY_CHECK(s.training == nullptr && (s.inference == nullptr || (s.inference == &params && !step.training)));
  TY_RETURN_IF_ERROR(s.CheckParameters(params, grads));
  TY_RETURN_IF_ERROR(s.CheckState(state));
  TY_RETURN_IF_ERROR(MatchFeeds(s.graph, feeds, s.fed));
  TY_RETURN_IF_ERROR(s.backend.status());
  s.Bind(params, grads);
  s.Start(step, state);
  s.UploadParameters(params);
  // An observer is told of every node, so each runs by itself.
  const bool behind = s.runner != nullptr && s.observer == nullptr;
  TY_RETURN_IF_ERROR(behind ? s.RunBehind(step, grads, sink) : s.RunEach(step, grads, sink));
  if (!s.graph.states().empty()) s.DownloadState(*state);
  return s.backend.status();
}

absl::StatusOr<StepOutcome> Executor::Train(const StepContext& step, std::span<const Feed> feeds, ParameterSet* state) {
  State& s = *state_;
  TY_CHECK(s.training != nullptr && step.training);
  TY_RETURN_IF_ERROR(s.CheckState(state));
  TY_RETURN_IF_ERROR(MatchFeeds(s.graph, feeds, s.fed));
  TY_RETURN_IF_ERROR(s.backend.status());
  s.Start(step, state);
  return s.runner != nullptr && s.observer == nullptr ? s.TrainBehind(step, state) : s.TrainEach(step, state);
}

absl::Status Executor::Fetch(std::string_view output, const Tensor& host) const {
  const auto found = state_->graph.outputs().find(output);
  if (found == state_->graph.outputs().end()) return absl::NotFoundError(fmt::format("the graph has no output '{}'", output));
  const ValueSpec& spec = state_->graph.spec(found->second);
  const bool right_type = host.dtype == spec.dtype || (spec.dtype == DType::kF32 && host.dtype == DType::kF64);
  if (!right_type || host.shape != spec.shape) {
    return absl::InvalidArgumentError(fmt::format("output '{}' is {} {}, it cannot be fetched into {} {}", output, DTypeName(spec.dtype),
                                                  spec.shape.ToString(), DTypeName(host.dtype), host.shape.ToString()));
  }
  state_->backend.Download(spec, state_->Pointer(found->second), host);
  return state_->backend.status();
}

std::span<const float> Executor::View(std::string_view output) const {
  const auto found = state_->graph.outputs().find(output);
  if (found == state_->graph.outputs().end() || !state_->backend.uses_host_memory()) return {};
  const ValueSpec& spec = state_->graph.spec(found->second);
  if (!spec.row_major || spec.narrow || spec.dtype != DType::kF32 || state_->backend.real() != DType::kF32) return {};
  return {static_cast<const float*>(state_->Pointer(found->second)), static_cast<size_t>(spec.shape.elements())};
}

absl::StatusOr<double> Executor::Scalar(std::string_view output) const {
  double value = 0.0;
  TY_RETURN_IF_ERROR(Fetch(output, {DType::kF64, {}, &value}));
  return value;
}

void Executor::set_observer(NodeObserver* observer) { state_->observer = observer; }
const Graph& Executor::graph() const { return state_->graph; }
std::vector<int> Executor::row_keys() const {
  std::vector<int> keys;
  for (const ExecutorFinish& finish : state_->finishes) {
    if (finish.by_rows_of_step >= 0) keys.push_back(finish.key);
  }
  return keys;
}
const MemoryPlan& Executor::plan() const { return state_->plan; }
size_t Executor::bytes() const { return state_->Bytes(); }

}  // namespace trainyard::engine
