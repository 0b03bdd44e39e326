// Checks a caller's feeds against the inputs of a graph.
#pragma once

#include <span>

#include "absl/status/status.h"
#include "trainer/backend/executor.h"
#include "trainer/graph/graph.h"

namespace trainyard::engine {

// Points matched[i] at the tensor fed for graph.inputs()[i]; allocates nothing unless it fails. InvalidArgument names the feed that is
// unknown, missing, given twice, of wrong shape or element type, or holds an integer outside [0, limit).
absl::Status MatchFeeds(const Graph& graph, std::span<const Feed> feeds, std::span<const Tensor*> matched);

}  // namespace trainyard::engine
