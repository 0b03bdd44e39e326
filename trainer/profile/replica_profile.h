// One replica's record of the profiled steps, as <output>/profiles/<role>-<index>.json: the raw
// spans of its own clock. Tables and the trace of the whole job are made of these files
// (merge_profiles.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/profile/span_log.h"

namespace trainyard::engine {

// A node of the graph, as often as it is run.
struct OperatorInfo {
  std::string name;  // unique within its graph
  std::string kind;  // "conv2d"
  int64_t flops = 0;
  int64_t bytes = 0;  // of its inputs and outputs
  int device = 0;     // of the worker that runs it

  friend bool operator==(const OperatorInfo&, const OperatorInfo&) = default;
};

struct ReplicaProfile {
  std::string role;
  int index = 0;
  int rank = -1;  // as a worker of the servers; -1: a server
  StepRange steps;
  std::vector<OperatorInfo> operators;  // Span::id of kNode
  std::vector<std::string> tensors;     // Span::id of all kinds that speak of a part; all-reduce: of a bucket
  std::vector<std::string> stages;      // Span::id of kStage
  std::vector<Span> spans;
  int64_t dropped = 0;  // spans for which there was no room

  std::string name() const { return role + "-" + std::to_string(index); }
  int devices() const;  // of a worker, as its operators tell
};

std::string ReplicaProfileJson(const ReplicaProfile& profile);
// InvalidArgument names the field; `name` is what errors call the text.
absl::StatusOr<ReplicaProfile> ParseReplicaProfile(std::string_view text, std::string_view name);

// <dir>/profiles
std::string ProfileFolder(const std::string& dir);
absl::Status WriteReplicaProfile(const std::string& dir, const ReplicaProfile& profile);
// Every profiles/*.json: trainers by rank, then servers by index. None where there is no such
// folder; a file that cannot be read is an error that names it.
absl::StatusOr<std::vector<ReplicaProfile>> ReadReplicaProfiles(const std::string& dir);

}  // namespace trainyard::engine
