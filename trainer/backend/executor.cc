#include "trainer/backend/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "trainer/backend/feed_check.h"
#include "trainer/base/check.h"
#include "trainer/base/memory_for.h"
#include "trainer/base/status_macros.h"
#include "trainer/ops/rules.h"
#include "trainer/tensor/buffer.h"

namespace trainyard::engine {
namespace {

int64_t ExamplesOf(const Shape& shape) { return shape.rank() > 0 ? shape[0] : 1; }

// A node that runs, with the places of its first input and output in the pointer tables.
struct Step {
  NodeId node = 0;
  std::unique_ptr<Kernel> kernel;
  size_t first_input = 0;
  size_t first_output = 0;
  TouchedRows* touched_rows = nullptr;  // during Run
};

// The action for a parameter's result once its node has run.
struct Finish {
  NodeId node = 0;
  int key = 0;
  Value value;
  bool in_place = false;     // the kernel wrote it where it belongs
  int by_rows_of_step = -1;  // it also lists the rows: index of its step
};

}  // namespace

struct Executor::State {
  State(Graph g, Backend& b, const ExecutorOptions& options)
      : graph(std::move(g)),
        backend(b),
        host_parameters(KernelsUseHostParameters(b)),
        inference(options.inference),
        training(options.training) {}

  absl::Status Compile();
  absl::Status Prepare();
  void FindFinishes();
  absl::Status PlaceValues();
  void Bind(const ParameterSet& params, ParameterSet* grads);
  void BindOutside(absl::FunctionRef<void*(int)> parameter, absl::FunctionRef<void*(int)> result);
  void BindSteps();
  void BindTouchedRows(ParameterSet* grads);
  absl::Status CheckParameters(const ParameterSet& params, const ParameterSet* grads) const;
  absl::Status CheckState(const ParameterSet* state) const;
  void Start(const StepContext& step, const ParameterSet* state);
  void UploadState(const ParameterSet& state);
  void DownloadState(ParameterSet& state);
  void UploadParameters(const ParameterSet& params);
  absl::Status MakeRunner();
  void RunNode(NodeId node, const StepContext& step);
  void StartTraining(const StepContext& step);
  absl::StatusOr<StepOutcome> TrainBehind(const StepContext& step, ParameterSet* state);
  absl::StatusOr<StepOutcome> TrainEach(const StepContext& step, ParameterSet* state);
  absl::Status RunBehind(const StepContext& step, ParameterSet* grads, GradientSink* sink);
  absl::Status RunEach(const StepContext& step, ParameterSet* grads, GradientSink* sink);
  absl::Status FinishResults(NodeId node, ParameterSet* grads, GradientSink* sink);
  bool IsExternal(Value value) const;
  size_t Bytes() const { return Aligned(plan.arena_bytes) + scratch_bytes; }
  void*& Pointer(Value value) { return pointers[value.node][value.output]; }

  const Graph graph;
  Backend& backend;
  const bool host_parameters;
  const ParameterSet* const inference;  // null: not for inference
  DeviceTraining* const training;       // null: parameters are the caller's
  MemoryPlan plan;
  std::unique_ptr<DeviceMemory> memory;  // the arena, then what kernels need while they run
  size_t scratch_bytes = 0;
  std::vector<Step> steps;
  std::vector<Finish> finishes;              // by node
  std::vector<std::vector<void*>> pointers;  // [node][output]
  std::vector<const void*> input_pointers;   // of the steps, node by node
  std::vector<void*> output_pointers;        // likewise
  std::vector<const Tensor*> fed;            // [index into graph.inputs()], during Run
  size_t next_finish = 0;                    // during Run
  std::vector<Step>::iterator next_step;     // likewise
  std::unique_ptr<DeviceSteps> runner;       // null: kernels run one by one
  NodeObserver* observer = nullptr;
};

// Parameters and results that kernels use where the caller, or the device's training, keeps them.
bool Executor::State::IsExternal(Value value) const {
  if (!host_parameters && training == nullptr) return false;
  if (std::holds_alternative<ParameterOp>(graph.node(value.node).op)) return true;
  return std::ranges::any_of(finishes, [&](const Finish& finish) { return finish.in_place && finish.value == value; });
}

absl::Status Executor::State::Compile() {
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Op& op = graph.node(id).op;
    if (IsSource(op) || AliasedInput(op)) continue;
    TY_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, backend.Compile(graph, id, inference != nullptr));
    scratch_bytes = std::max(scratch_bytes, kernel->scratch_bytes());
    steps.push_back({id, std::move(kernel), input_pointers.size(), output_pointers.size()});
    input_pointers.resize(input_pointers.size() + graph.node(id).inputs.size());
    output_pointers.resize(output_pointers.size() + graph.node(id).outputs.size());
  }
  return absl::OkStatus();
}

// Kernels of inference see their parameters once.
absl::Status Executor::State::Prepare() {
  if (inference == nullptr || !host_parameters) return absl::OkStatus();
  TY_RETURN_IF_ERROR(CheckParameters(*inference, nullptr));
  return WithMemoryFor("what is kept of parameters", 0, [this] {
    std::vector<const void*> inputs;
    for (const Step& step : steps) {
      inputs.clear();
      for (const Value& input : graph.node(step.node).inputs) {
        const auto* parameter = std::get_if<ParameterOp>(&graph.node(input.node).op);
        inputs.push_back(parameter == nullptr ? nullptr : inference->values(parameter->key).data());
      }
      step.kernel->Prepare(inputs);
    }
    return absl::OkStatus();
  });
}

// A result is written in place if a kernel makes it for one key alone and nobody fetches it by
// name.
void Executor::State::FindFinishes() {
  for (const ParameterResult& result : graph.results()) {
    const Op& op = graph.node(result.value.node).op;
    const bool made_by_kernel = !IsSource(op) && !AliasedInput(op);
    const bool named = std::ranges::any_of(graph.outputs(), [&](const auto& output) { return output.second == result.value; });
    const bool taken = std::ranges::any_of(finishes, [&](const Finish& finish) { return finish.value == result.value; });
    const bool in_place = (host_parameters || training != nullptr) && made_by_kernel && !named && !taken;
    finishes.push_back({result.value.node, result.key, result.value, in_place});
    if (in_place && host_parameters && result.value.output == 0 && FillsRowsOfIds(op)) {
      const auto step = std::ranges::find(steps, result.value.node, &Step::node);
      finishes.back().by_rows_of_step = static_cast<int>(step - steps.begin());
    }
  }
  std::ranges::sort(finishes, {}, [](const Finish& finish) { return std::pair(finish.node, finish.key); });
}

absl::Status Executor::State::PlaceValues() {
  plan = PlanMemory(graph, {.bytes = [this](const ValueSpec& spec) { return backend.BytesFor(spec); },
                            .external = [this](Value value) { return IsExternal(value); },
                            .alias = [](const Node& node) { return AliasedInput(node.op); },
                            .in_place = [](const Node& node, int i) { return MayRunInPlace(node.op, i); }});
  const int64_t examples = graph.inputs().empty() ? 0 : ExamplesOf(graph.spec({graph.inputs()[0], 0}).shape);
  TY_ASSIGN_OR_RETURN(memory, backend.Allocate(fmt::format("the arena of a batch of {}", examples), Bytes()));
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    std::vector<void*>& row = pointers.emplace_back();
    for (const ValueStorage& placement : plan.placements[id]) {
      row.push_back(placement.kind == ValueStorage::Kind::kArena ? memory->data() + placement.offset : nullptr);
    }
  }
  fed.resize(graph.inputs().size());
  return absl::OkStatus();
}

// Fills the pointer tables with this step's places of parameters and results.
void Executor::State::Bind(const ParameterSet& params, ParameterSet* grads) {
  if (host_parameters) {
    // Kernels only read parameters; the table holds plain pointers because most of its entries are
    // written.
    BindOutside([&params](int key) { return const_cast<float*>(params.values(key).data()); },
                [grads](int key) { return grads->values(key).data(); });
  }
  BindTouchedRows(grads);
  BindSteps();
}

void Executor::State::BindOutside(absl::FunctionRef<void*(int)> parameter, absl::FunctionRef<void*(int)> result) {
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    if (const auto* op = std::get_if<ParameterOp>(&graph.node(id).op)) pointers[id][0] = parameter(op->key);
  }
  for (const Finish& finish : finishes) {
    if (finish.in_place) Pointer(finish.value) = result(finish.key);
  }
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    if (AliasedInput(graph.node(id).op)) pointers[id][0] = Pointer(graph.node(id).inputs[*AliasedInput(graph.node(id).op)]);
  }
}

void Executor::State::BindSteps() {
  for (const Step& step : steps) {
    const Node& node = graph.node(step.node);
    for (size_t i = 0; i < node.inputs.size(); ++i) input_pointers[step.first_input + i] = Pointer(node.inputs[i]);
    for (size_t i = 0; i < node.outputs.size(); ++i) output_pointers[step.first_output + i] = pointers[step.node][i];
  }
}

// Kernels that fill a gradient row by row in its set keep the list of its rows. Any other result
// may touch every row.
void Executor::State::BindTouchedRows(ParameterSet* grads) {
  for (const Finish& finish : finishes) {
    TouchedRows& touched = grads->touched_rows(finish.key);
    if (finish.by_rows_of_step < 0) {
      touched.SetAll();
      continue;
    }
    touched.Reserve(static_cast<size_t>(graph.spec(graph.node(finish.node).inputs[0]).shape.elements()));
    steps[finish.by_rows_of_step].touched_rows = &touched;
  }
}

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
  if (host_parameters) return;
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
    const Finish& finish = finishes[next_finish];
    const ValueSpec& spec = graph.spec(finish.value);
    if (!finish.in_place) {
      backend.Download(spec, Pointer(finish.value), {DType::kF32, spec.shape, grads->values(finish.key).data()});
      TY_RETURN_IF_ERROR(backend.status());
    }
    if (sink != nullptr) sink->Ready(finish.key);
  }
  return absl::OkStatus();
}

absl::Status Executor::State::MakeRunner() {
  if (backend.uses_host_memory()) return absl::OkStatus();
  std::vector<DeviceResult> results;
  if (training != nullptr) {
    results.push_back({{.shape = {DeviceTraining::kOutcomeFloats}}, training->outcome()});
    for (const Value next : graph.next_states()) {
      if (next.valid()) results.push_back({graph.spec(next), Pointer(next)});
    }
  } else {
    for (const Finish& finish : finishes) results.push_back({graph.spec(finish.value), Pointer(finish.value)});
  }
  TY_ASSIGN_OR_RETURN(runner, backend.MakeDeviceSteps(std::move(results)));
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
  for (const Finish& finish : finishes) {
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
  TY_CHECK(options.inference == nullptr || (!forward.loss().valid() && forward.results().empty()));
  Graph graph = backend.Rewrite(forward, {.fuse = options.fuse, .inference = options.inference != nullptr});
  if (graph.loss().valid()) TY_RETURN_IF_ERROR(AddGradients(graph, graph.loss(), options.gradients));
  auto state = std::make_unique<State>(std::move(graph), backend, options);
  TY_RETURN_IF_ERROR(state->Compile());
  TY_RETURN_IF_ERROR(state->Prepare());
  state->FindFinishes();
  TY_RETURN_IF_ERROR(state->PlaceValues());
  if (DeviceTraining* const training = options.training) {
    state->BindOutside([training](int key) { return training->parameter(key); }, [training](int key) { return training->result(key); });
    state->BindSteps();
  }
  TY_RETURN_IF_ERROR(state->MakeRunner());
  return std::unique_ptr<Executor>(new Executor(std::move(state)));
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
  if (!spec.row_major || spec.bf16 || spec.dtype != DType::kF32 || state_->backend.real() != DType::kF32) return {};
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
  for (const Finish& finish : state_->finishes) {
    if (finish.by_rows_of_step >= 0) keys.push_back(finish.key);
  }
  return keys;
}
const MemoryPlan& Executor::plan() const { return state_->plan; }
size_t Executor::bytes() const { return state_->Bytes(); }

}  // namespace trainyard::engine
