// Inputs for measurements, where the numbers do not matter.
#pragma once

#include <span>
#include <vector>

#include "trainer/backend/feed_check.h"
#include "trainer/graph/graph.h"
#include "trainer/tensor/buffer.h"

namespace trainyard::engine {

// Made-up values for every input of a graph: pixels as u8, labels below their limit, other numbers
// in [0, 1). The same ones for the same graph, which must outlive them.
class MadeUpFeeds {
 public:
  explicit MadeUpFeeds(const Graph& graph);
  std::span<const Feed> feeds() const { return feeds_; }

 private:
  std::vector<Buffer> buffers_;
  std::vector<Feed> feeds_;
};

}  // namespace trainyard::engine
