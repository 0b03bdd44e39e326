// A worker's record of its profiled steps (`spec.training.profile`): its phases and every node
// here, pushes and pulls in the same log by the KvClient. Outside of those steps nothing is
// recorded, and no clock is read.
#pragma once

#include <map>
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

// Used from the step loop's thread; the log may be added to from others.
class Profiler final : public NodeObserver {
 public:
  // `clock` must outlive the profiler.
  Profiler(ProfilerOptions options, Clock& clock) : options_(std::move(options)), log_(options_.steps, clock) {}

  bool Wants(int64_t step) const { return log_.Wants(step); }
  SpanLog& log() { return log_; }
  // Before the first step. `tensors`: by part (trainer/kvstore/placement.h); all-reduce: by bucket.
  void NameTensors(std::vector<std::string> tensors) { tensors_ = std::move(tensors); }

  // Before a wanted step, which will run `executor`: its nodes are observed until EndStep. A graph
  // that comes up for the first time is listed then, and the log gets its memory with the first
  // one.
  void BeginStep(int64_t step, Executor& executor);
  void BeforeNode(NodeId) override { node_start_ = log_.Now(); }
  void AfterNode(NodeId node) override;
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
  const ProfilerOptions options_;
  SpanLog log_;
  std::vector<std::string> tensors_;
  std::vector<OperatorInfo> operators_;
  std::vector<std::string> stages_;
  std::map<const Graph*, int32_t> first_operator_;  // of a graph's nodes, in operators_
  // Of the step in hand.
  Executor* executor_ = nullptr;
  int32_t first_ = 0;
  int64_t step_ = 0;
  int64_t node_start_ = 0;
  size_t written_ = 0;  // spans
};

}  // namespace trainyard::engine
