// Where the time of the profiled steps went, by kind of operator and by node, over all workers and
// their devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "trainer/profile/replica_profile.h"

namespace trainyard::engine {

struct OperatorRow {
  std::string name;  // of the node; of the kind, or "worker-0 device 1", in a row that stands for all of its nodes
  std::string kind;
  int64_t calls = 0;
  int64_t nanos = 0;
  double flops = 0;  // of all calls, as the bytes
  double bytes = 0;
  // The steps that it is a part of, of each device that may have run it.
  int64_t steps = 0;
  int64_t step_nanos = 0;  // of all of them

  double Share() const { return step_nanos > 0 ? static_cast<double>(nanos) / static_cast<double>(step_nanos) : 0; }
  double MillisecondsPerStep() const { return steps > 0 ? 1e-6 * static_cast<double>(nanos) / static_cast<double>(steps) : 0; }
  double FlopsPerSecond() const { return nanos > 0 ? 1e9 * flops / static_cast<double>(nanos) : 0; }
  double BytesPerSecond() const { return nanos > 0 ? 1e9 * bytes / static_cast<double>(nanos) : 0; }
};

struct OperatorTable {
  StepRange steps;  // from the first to the last that was recorded
  int workers = 0;
  int64_t worker_steps = 0;  // profiled steps of all workers together
  // Of all those steps together, in nanoseconds.
  int64_t step_nanos = 0;
  int64_t input_nanos = 0;
  int64_t compute_nanos = 0;
  int64_t update_nanos = 0;
  int64_t dropped = 0;  // spans that found no room, of any replica
  // The longest first. Shares and times of a step are means over the devices.
  std::vector<OperatorRow> kinds;
  std::vector<OperatorRow> nodes;
  std::vector<OperatorRow> devices;  // each of the workers that have several: what it computed

  // Of phases.
  double Share(int64_t nanos) const { return step_nanos > 0 ? static_cast<double>(nanos) / static_cast<double>(step_nanos) : 0; }
  double MillisecondsPerStep(int64_t nanos) const {
    return worker_steps > 0 ? 1e-6 * static_cast<double>(nanos) / static_cast<double>(worker_steps) : 0;
  }
};

OperatorTable MakeOperatorTable(std::span<const ReplicaProfile> profiles);

// With the `most_nodes` nodes that took longest.
nlohmann::ordered_json ToJson(const OperatorTable& table, size_t most_nodes);

// For a terminal: a line for the step's phases, then a line with a bar for each device, kind and
// node. It shows the `most_kinds` kinds and `most_nodes` nodes that took longest.
std::string OperatorTableText(const OperatorTable& table, size_t most_kinds, size_t most_nodes);

}  // namespace trainyard::engine
