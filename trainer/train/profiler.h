// A worker's record of its profiled steps (`spec.training.profile`): its phases and every node of
// every device here, pushes and pulls in the same log by the KvClient. Outside of those steps
// nothing is recorded, and no clock is read.
#pragma once

#include <deque>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "trainer/backend/executor.h"
#include "trainer/graph/graph.h"
#include "trainer/profile/replica_profile.h"
#include "trainer/profile/span_log.h"

namespace trainyard::engine {

struct StepRecord;

struct ProfilerOptions {
  std::string role = "worker";
  int index = 0;
  int rank = 0;
  StepRange steps;
  std::string output;  // profiles/ is below it
};

// Used from the step loop's thread; the log may be added to from others, devices among them.
class Profiler final {
 public:
  // `clock` must outlive the profiler.
  Profiler(ProfilerOptions options, Clock& clock) : options_(std::move(options)), log_(options_.steps, clock) {}

  bool Wants(int64_t step) const { return log_.Wants(step); }
  SpanLog& log() { return log_; }
  // Before the first step. `tensors`: by part (trainer/kvstore/placement.h); all-reduce: by bucket.
  void NameTensors(std::vector<std::string> tensors) { tensors_ = std::move(tensors); }

  // Before a wanted step, which will run `executors`, by device (null: it has no examples). Their
  // nodes are observed until EndStep. A graph that comes up for the first time is listed then, and
  // the log gets its memory with the first step.
  void BeginStep(int64_t step, std::span<Executor* const> executors);
  // A step that was begun and does not end.
  void AbandonStep();
  // After it.
  void EndStep(const StepRecord& record);
  // Something was recorded since the last Write.
  bool HasNews() const { return log_.size() > written_; }
  // Writes the replica's profile as it is now.
  absl::Status Write();

  // The mean time of each node over the profiled steps so far, in nanoseconds, by name.
  std::map<std::string, int64_t> MeanNodeNanos() const;

 private:
  // The nodes of one device, seen from its thread.
  class DeviceObserver final : public NodeObserver {
   public:
    DeviceObserver(SpanLog& log, int64_t step, int32_t first) : log_(log), step_(step), first_(first) {}
    void BeforeNode(NodeId) override { start_ = log_.Now(); }
    void AfterNode(NodeId node) override;

   private:
    SpanLog& log_;
    const int64_t step_;
    const int32_t first_;  // operator of its graph
    int64_t start_ = 0;
  };
  struct Observed {
    Executor* executor;
    DeviceObserver observer;
  };
  // The place of the graph's nodes in operators_.
  int32_t ListGraph(int device, const Graph& graph);

  const ProfilerOptions options_;
  SpanLog log_;
  std::vector<std::string> tensors_;
  std::vector<OperatorInfo> operators_;
  std::vector<std::string> stages_;
  std::map<const Graph*, int32_t> first_operator_;  // of a graph's nodes, in operators_
  std::deque<Observed> observed_;                   // of the step in hand; they stay where they are
  size_t written_ = 0;                              // spans
};

}  // namespace trainyard::engine
