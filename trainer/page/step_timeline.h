// What the replicas of a run did at the same time: some profiled steps of its trace, for a picture.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace trainyard::engine {

inline constexpr int kTimelineSteps = 3;
inline constexpr int kMostTimelineReplicas = 16;
inline constexpr int kMostTimelineLanes = 8;    // of a replica
inline constexpr int kMostTimelineSpans = 300;  // of a lane

// `trace`: the events of trace.json (docs/profiling.md, the Trace Event Format). The picture begins
// with the first step of them all, and ends with the third step of the replica that made it.
//   {"microseconds": 30000, "steps": [10, 12], "left_out": 0, "replicas": [{"name": "worker-0",
//    "lanes": [{"name": "compute", "spans": [[begin, microseconds, "compute"], …]}]}]}
// A lane holds what one thread waits for or does: input, compute, communication, a bucket of the
// all-reduce, serving. Null where the trace has no step; throws json::exception where it is no
// trace.
nlohmann::ordered_json StepTimeline(const nlohmann::json& trace);

}  // namespace trainyard::engine
