// A batch that a caller feeds, and its check against the inputs of a graph.
#pragma once

#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "trainer/graph/graph.h"
#include "trainer/tensor/tensor.h"

namespace trainyard::engine {

// A batch for the input `name`, row-major. Its shape is the input's; extents of 1 after the first
// may be missing or added.
struct Feed {
  std::string_view name;
  Tensor tensor;
};

// Points matched[i] at the tensor fed for graph.inputs()[i]; allocates nothing unless it fails.
// InvalidArgument names the feed that is unknown, missing, given twice, of wrong shape or element
// type, or holds an integer outside [0, limit).
absl::Status MatchFeeds(const Graph& graph, std::span<const Feed> feeds, std::span<const Tensor*> matched);

}  // namespace trainyard::engine
