// Which values of a graph are flattened images: programs that keep channels before rows have their
// elements in another order.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "trainer/graph/graph.h"

namespace trainyard::engine {

// Pixels and channels of the images that a value [samples, features] holds, pixel by pixel with the
// channels innermost. Absent: values that are none, or whose elements have the same order with the
// channels outermost.
using FlattenedImages = std::map<Value, std::array<int64_t, 2>>;

// Of a forward graph.
FlattenedImages FlattenedImagesOf(const Graph& graph);

}  // namespace trainyard::engine
