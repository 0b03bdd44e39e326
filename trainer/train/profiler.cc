#include "trainer/train/profiler.h"

#include <algorithm>

#include "trainer/ops/rules.h"
#include "trainer/report/recorder.h"

namespace trainyard::engine {
namespace {

OperatorInfo InfoOf(int device, const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  return {
      .name = node.name, .kind = std::string(OpName(node.op)), .flops = Flops(graph, id), .bytes = BytesMoved(graph, id), .device = device};
}

}  // namespace

int32_t Profiler::ListGraph(int device, const Graph& graph) {
  const auto [entry, is_new] = first_operator_.try_emplace(&graph, static_cast<int32_t>(operators_.size()));
  if (is_new) {
    for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) operators_.push_back(InfoOf(device, graph, id));
  }
  return entry->second;
}

void Profiler::BeginStep(int64_t step, std::span<Executor* const> executors) {
  const bool first_step = operators_.empty();
  for (size_t device = 0; device < executors.size(); ++device) {
    Executor* const executor = executors[device];
    if (executor == nullptr) continue;
    observed_.push_back({executor, DeviceObserver(log_, step, ListGraph(static_cast<int>(device), executor->graph()))});
    executor->set_observer(&observed_.back().observer);
  }
  if (first_step) {
    constexpr size_t kPhases = 5 + 16;  // and the stages of the input
    constexpr size_t kPerTensor = 3;    // push, arrived, pull; or one of a bucket
    log_.Reserve(static_cast<size_t>(options_.steps.size()) * (kPhases + operators_.size() + kPerTensor * tensors_.size()));
  }
}

void Profiler::DeviceObserver::AfterNode(NodeId node) {
  log_.Add({.kind = SpanKind::kNode, .id = first_ + static_cast<int32_t>(node), .step = step_, .start = start_, .end = log_.Now()});
}

void Profiler::AbandonStep() {
  for (const Observed& each : observed_) each.executor->set_observer(nullptr);
  observed_.clear();
}

void Profiler::EndStep(const StepRecord& record) {
  AbandonStep();
  const auto add = [&](SpanKind kind, absl::Time start, absl::Time end) {
    log_.Add({.kind = kind, .step = record.step, .start = absl::ToUnixNanos(start), .end = absl::ToUnixNanos(end)});
  };
  add(SpanKind::kStep, record.start, record.end);
  add(SpanKind::kInput, record.start, record.input_done);
  add(SpanKind::kCompute, record.input_done, record.compute_done);
  add(SpanKind::kUpdate, record.compute_done, record.end);
  for (const StageSpan& stage : record.input) {
    auto known = std::ranges::find(stages_, stage.stage);
    if (known == stages_.end()) known = stages_.insert(known, std::string(stage.stage));
    log_.Add({.kind = SpanKind::kStage,
              .id = static_cast<int32_t>(known - stages_.begin()),
              .step = record.step,
              .start = absl::ToUnixNanos(stage.start),
              .end = absl::ToUnixNanos(stage.start + stage.duration)});
  }
}

absl::Status Profiler::Write() {
  written_ = log_.size();
  return WriteReplicaProfile(options_.output, {.role = options_.role,
                                               .index = options_.index,
                                               .rank = options_.rank,
                                               .steps = options_.steps,
                                               .operators = operators_,
                                               .tensors = tensors_,
                                               .stages = stages_,
                                               .spans = log_.spans(),
                                               .dropped = log_.dropped()});
}

std::map<std::string, int64_t> Profiler::MeanNodeNanos() const {
  std::map<std::string, std::pair<int64_t, int64_t>> sums;  // nanoseconds, calls
  for (const Span& span : log_.spans()) {
    if (span.kind != SpanKind::kNode) continue;
    auto& [nanos, calls] = sums[operators_[span.id].name];
    nanos += span.end - span.start;
    ++calls;
  }
  std::map<std::string, int64_t> means;
  for (const auto& [name, sum] : sums) means[name] = sum.first / sum.second;
  return means;
}

}  // namespace trainyard::engine
