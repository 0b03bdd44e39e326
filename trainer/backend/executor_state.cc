#include "trainer/backend/executor_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "trainer/base/memory_for.h"
#include "trainer/base/status_macros.h"
#include "trainer/ops/rules.h"

namespace trainyard::engine {
namespace {

int64_t ExamplesOf(const Shape& shape) { return shape.rank() > 0 ? shape[0] : 1; }

}  // namespace

// Parameters and results that kernels use where the caller, or the device's training, keeps them.
bool Executor::State::IsExternal(Value value) const {
  if (!host_parameters && resident == nullptr) return false;
  if (std::holds_alternative<ParameterOp>(graph.node(value.node).op)) return true;
  return std::ranges::any_of(finishes, [&](const ExecutorFinish& finish) { return finish.in_place && finish.value == value; });
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
    for (const ExecutorStep& step : steps) {
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
    const bool taken = std::ranges::any_of(finishes, [&](const ExecutorFinish& finish) { return finish.value == result.value; });
    const bool in_place = (host_parameters || training != nullptr) && made_by_kernel && !named && !taken;
    finishes.push_back({result.value.node, result.key, result.value, in_place});
    if (in_place && host_parameters && result.value.output == 0 && FillsRowsOfIds(op)) {
      const auto step = std::ranges::find(steps, result.value.node, &ExecutorStep::node);
      finishes.back().by_rows_of_step = static_cast<int>(step - steps.begin());
    }
  }
  std::ranges::sort(finishes, {}, [](const ExecutorFinish& finish) { return std::pair(finish.node, finish.key); });
}

void Executor::State::PlanValues() {
  plan = PlanMemory(graph, {.bytes = [this](const ValueSpec& spec) { return backend.BytesFor(spec); },
                            .external = [this](Value value) { return IsExternal(value); },
                            .alias = [](const Node& node) { return AliasedInput(node.op); },
                            .in_place = [](const Node& node, int i) { return MayRunInPlace(node.op, i); }});
}

absl::Status Executor::State::PlaceValues() {
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
  for (const ExecutorFinish& finish : finishes) {
    if (finish.in_place) Pointer(finish.value) = result(finish.key);
  }
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    if (AliasedInput(graph.node(id).op)) pointers[id][0] = Pointer(graph.node(id).inputs[*AliasedInput(graph.node(id).op)]);
  }
}

// Once: what a device keeps stays where it is.
void Executor::State::BindToDevice() {
  if (resident == nullptr) return;
  BindOutside([this](int key) { return resident->parameter(key); }, [this](int key) { return training->result(key); });
  BindSteps();
}

void Executor::State::BindSteps() {
  for (const ExecutorStep& step : steps) {
    const Node& node = graph.node(step.node);
    for (size_t i = 0; i < node.inputs.size(); ++i) input_pointers[step.first_input + i] = Pointer(node.inputs[i]);
    for (size_t i = 0; i < node.outputs.size(); ++i) output_pointers[step.first_output + i] = pointers[step.node][i];
  }
}

// Kernels that fill a gradient row by row in its set keep the list of its rows. Any other result
// may touch every row.
void Executor::State::BindTouchedRows(ParameterSet* grads) {
  for (const ExecutorFinish& finish : finishes) {
    TouchedRows& touched = grads->touched_rows(finish.key);
    if (finish.by_rows_of_step < 0) {
      touched.SetAll();
      continue;
    }
    touched.Reserve(static_cast<size_t>(graph.spec(graph.node(finish.node).inputs[0]).shape.elements()));
    steps[finish.by_rows_of_step].touched_rows = &touched;
  }
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
    for (const ExecutorFinish& finish : finishes) results.push_back({graph.spec(finish.value), Pointer(finish.value)});
  }
  TY_ASSIGN_OR_RETURN(runner, backend.MakeDeviceSteps(std::move(results)));
  return absl::OkStatus();
}

}  // namespace trainyard::engine
